// Package check holds the rules of names, passwords and specs in the zdb module's
// contract. Its functions look at nothing but their arguments, and no error shows a
// password.
package check

import (
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

var idForm = regexp.MustCompile(`^[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*$`)

const (
	// LongestID is the maximum length of an ID, in bytes.
	LongestID = 64
	// longestPassword is 0-db's, in bytes.
	longestPassword = 63
	// DefaultNamespace is each zdb's own. It belongs to no reservation.
	DefaultNamespace = "default"
	// NoPassword is the value that clears a password in 0-db.
	NoPassword = "*"
)

// ID refuses text that must not become a file's name or a namespace's.
func ID(what, id string) error {
	if len(id) > LongestID || !idForm.MatchString(id) {
		return node.Errorf(node.Invalid, "cannot use %s %.80q: its name must be an ID, of at most %d letters and digits with single -, _ or . between them", what, id, LongestID)
	}
	return nil
}

// Name refuses names that a reservation's namespace can't have.
func Name(name string) error {
	if name == DefaultNamespace {
		return node.Errorf(node.Invalid, "cannot use namespace %q: it is the zdb's own, a reservation's has the name of its ID", name)
	}
	return ID("namespace", name)
}

// Server refuses specs that can't be attached.
func Server(s node.ZDBServerSpec) error {
	if err := ID("zdb container", s.Container); err != nil {
		return err
	}
	switch {
	case s.Mode != workload.ZDBUser && s.Mode != workload.ZDBSeq:
		return node.Errorf(node.Invalid, "cannot attach zdb %s: Mode is %.80q, must be %s or %s", s.Container, s.Mode, workload.ZDBUser, workload.ZDBSeq)
	case !filepath.IsAbs(s.Data) || filepath.Clean(s.Data) != s.Data || s.Data == "/" || strings.ContainsAny(s.Data, "\x00\n"):
		return node.Errorf(node.Invalid, "cannot attach zdb %s: Data is %.200q, must be the absolute path of its volume", s.Container, s.Data)
	}
	return nil
}

// Namespace refuses specs that can't be made.
func Namespace(s node.ZDBNamespaceSpec) error {
	if err := ID("zdb container", s.Container); err != nil {
		return err
	}
	if err := Name(s.Name); err != nil {
		return err
	}
	if s.Size == 0 || s.Size > math.MaxInt64 {
		return node.Errorf(node.Invalid, "cannot make namespace %s: data.size is %d bytes, must be from 1 to %d", s.Name, s.Size, int64(math.MaxInt64))
	}
	if err := Claim(s).Valid("make namespace " + s.Name); err != nil {
		return err
	}
	if wrong := password(s.Password); wrong != "" {
		return node.Errorf(node.Invalid, "cannot make namespace %s: data.password %s", s.Name, wrong)
	}
	return nil
}

// password describes the fault of a password; "" for none. One that isn't plain text
// couldn't be typed into a client.
func password(text string) string {
	switch {
	case len(text) > longestPassword:
		return "is too long, must be of at most 63 bytes"
	case text == NoPassword:
		return "is *, must be another one: that means none"
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "has bytes that aren't text, must be UTF-8 without control characters"
	}
	return ""
}

// Names checks the names of a container and a namespace in it.
func Names(container, name string) error {
	if err := ID("zdb container", container); err != nil {
		return err
	}
	return Name(name)
}

// Claim is the right to a namespace that a spec claims.
func Claim(s node.ZDBNamespaceSpec) node.Claim {
	return node.Claim{Hash: s.Hash, AdoptUnlabelled: s.AdoptUnlabelled}
}
