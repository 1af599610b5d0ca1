// Package fielderror describes a refused field of a document: its path, its value and
// the allowed values. It owns nothing.
package fielderror

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/clip"
)

// MaxShown is how much of a refused value an error shows, in bytes.
const MaxShown = 80

// Error names the refused field of a document and its allowed values. Use errors.As
// to get it: its parts are fit for a signed result, for they never hold the text of
// a secret.
type Error struct {
	// Field is the path in the document, as in "data.mounts[1].mountpoint".
	Field string
	// Value is the field's value, in JSON, shortened; or a description of it in words.
	Value string
	// Allowed describes the allowed values.
	Allowed string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("cannot accept %s: it is %s, must be %s", e.Field, e.Value, e.Allowed)
}

// New returns the Error of the value of a field; allowed is a format for args, when
// there are any.
func New(field string, value any, allowed string, args ...any) error {
	if len(args) > 0 {
		allowed = fmt.Sprintf(allowed, args...)
	}
	return &Error{Field: clip.Text(field, MaxShown), Value: Show(field, value), Allowed: allowed}
}

// Words describes a value in words; an Error shows it without quotes.
type Words string

// Descriptions of members.
const (
	Missing Words = "missing"
	Unknown Words = "unknown"
	Twice   Words = "there twice"
)

// Show is the value of a field as an Error has it: short, and without the text of a
// possible secret.
func Show(field string, value any) string {
	switch v := value.(type) {
	case Words:
		return string(v)
	case string:
		if secret(field) {
			return fmt.Sprintf("a text of %d bytes", len(v))
		}
		return strconv.Quote(clip.Text(v, MaxShown))
	case json.Number:
		if secret(field) {
			return "a number"
		}
		return clip.Text(v.String(), MaxShown)
	case []any:
		return fmt.Sprintf("an array of %d", len(v))
	case map[string]any:
		return fmt.Sprintf("an object of %d members", len(v))
	case nil:
		return "null"
	default:
		return clip.Text(fmt.Sprint(v), MaxShown)
	}
}

// secret reports whether the field's value may be somebody's secret, also by
// mistake: a password that wasn't sealed. Errors travel and are logged.
func secret(field string) bool {
	if strings.HasPrefix(field, "data.env.") || strings.HasPrefix(field, "data.secret_env.") {
		return true
	}
	switch field[strings.LastIndexByte(field, '.')+1:] {
	case "password", "wg_private_key", "cluster_secret", "image_auth":
		return true
	}
	return false
}

// Join makes the path of a member.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Index makes the path of an array's item.
func Index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
