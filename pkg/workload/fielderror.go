package workload

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/clip"
)

// maxShown is how much of a refused value an error shows, in bytes.
const maxShown = 80

// FieldError says which field of a document is refused and what is allowed in
// it. Use errors.As to get it: its parts are fit for a signed result, for they
// never hold the text of a secret.
type FieldError struct {
	// Field is the path in the document, as in "data.mounts[1].mountpoint".
	Field string
	// Value is what is there, in JSON, shortened; or what is wrong with it in words.
	Value string
	// Allowed says what may be there.
	Allowed string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("cannot accept %s: it is %s, must be %s", e.Field, e.Value, e.Allowed)
}

// refuse makes a FieldError of a value.
func refuse(field string, value any, allowed string, args ...any) error {
	if len(args) > 0 {
		allowed = fmt.Sprintf(allowed, args...)
	}
	return &FieldError{Field: clip.Text(field, maxShown), Value: show(field, value), Allowed: allowed}
}

// words makes a value be said as it stands, not quoted.
type words string

// The words for what isn't a value.
const (
	missing words = "missing"
	unknown words = "unknown"
	twice   words = "there twice"
)

func show(field string, value any) string {
	switch v := value.(type) {
	case words:
		return string(v)
	case string:
		if secret(field) {
			return fmt.Sprintf("a text of %d bytes", len(v))
		}
		return strconv.Quote(clip.Text(v, maxShown))
	case json.Number:
		if secret(field) {
			return "a number"
		}
		return clip.Text(v.String(), maxShown)
	case []any:
		return fmt.Sprintf("an array of %d", len(v))
	case map[string]any:
		return fmt.Sprintf("an object of %d members", len(v))
	case nil:
		return "null"
	default:
		return clip.Text(fmt.Sprint(v), maxShown)
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

// join makes the path of a member.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// index makes the path of an array's item.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
