package zdb

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
	longestID = 64
	// longestPassword is 0-db's, in bytes.
	longestPassword = 63
	// defaultNamespace is each zdb's own. It is nobody's.
	defaultNamespace = "default"
	// noPassword is what 0-db takes for the wish to clear a password.
	noPassword = "*"
)

// checkID refuses what must not become a file's name or a namespace's.
func checkID(what, id string) error {
	if len(id) > longestID || !idForm.MatchString(id) {
		return node.Errorf(node.Invalid, "cannot use %s %.80q: its name must be an ID, of at most %d letters and digits with single -, _ or . between them", what, id, longestID)
	}
	return nil
}

func checkNamespace(name string) error {
	if name == defaultNamespace {
		return node.Errorf(node.Invalid, "cannot use namespace %q: it is the zdb's own, a reservation's has the name of its ID", name)
	}
	return checkID("namespace", name)
}

// checkServer says what of a spec can't be attached. It looks at nothing but the spec.
func checkServer(s node.ZDBServerSpec) error {
	if err := checkID("zdb container", s.Container); err != nil {
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

// checkSpec says what of a spec can't be made. No error shows the password.
func checkSpec(s node.ZDBNamespaceSpec) error {
	if err := checkID("zdb container", s.Container); err != nil {
		return err
	}
	if err := checkNamespace(s.Name); err != nil {
		return err
	}
	if s.Size == 0 || s.Size > math.MaxInt64 {
		return node.Errorf(node.Invalid, "cannot make namespace %s: data.size is %d bytes, must be from 1 to %d", s.Name, s.Size, int64(math.MaxInt64))
	}
	if err := claimOf(s).Valid("make namespace " + s.Name); err != nil {
		return err
	}
	if wrong := checkPassword(s.Password); wrong != "" {
		return node.Errorf(node.Invalid, "cannot make namespace %s: data.password %s", s.Name, wrong)
	}
	return nil
}

// checkPassword says what is wrong with one that is set. What isn't plain text
// couldn't be typed into a client.
func checkPassword(password string) string {
	switch {
	case len(password) > longestPassword:
		return "is too long, must be of at most 63 bytes"
	case password == noPassword:
		return "is *, must be another one: that means none"
	case !utf8.ValidString(password) || strings.ContainsFunc(password, unicode.IsControl):
		return "has bytes that aren't text, must be UTF-8 without control characters"
	}
	return ""
}
