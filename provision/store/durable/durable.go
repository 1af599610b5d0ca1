// Package durable stores a store's bytes: named objects, durable on return. It doesn't interpret them.
// Package conformance below it is the test suite that every provider must pass.
package durable

import (
	"strings"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
)

// Object is a name and its content.
type Object struct {
	Name string
	Data []byte
}

// Provider keeps objects. A name is "name" or "folder/name" of lower-case
// letters, digits, '-', '_' and '.', and begins with a letter or a digit: see
// CheckName. Every change is durable when the call returns. Errors carry a
// node.Kind: NotExist, NoSpace, Invalid, Internal. Providers may be used from several goroutines.
type Provider interface {
	// Put sets the content of each name. Each is whole, the old content or the new,
	// whatever happens. When an object can't be written, none in its folder is changed; a
	// crash may leave the first few of several changed. Invalid, and nothing is changed, when
	// a name is given twice.
	Put(objects ...Object) error
	// Get returns a name's content. NotExist when there is none.
	Get(name string) ([]byte, error)
	// Delete removes names; a missing one is no error.
	Delete(names ...string) error
	// Move renames an object without needing space for it, and replaces the object at to.
	// NotExist when there is none at from.
	Move(from, to string) error
	// List returns the sorted names in a folder, with the folder; "" is the top. Folders
	// aren't names; a missing folder is empty.
	List(folder string) ([]string, error)
	// Close releases the provider's resources.
	Close() error
}

// maxName is the longest part of a name, in bytes.
const maxName = 200

// CheckName returns an Invalid error unless name may name an object.
func CheckName(name string) error {
	folder, rest, ok := strings.Cut(name, "/")
	if ok && (!validPart(folder) || !validPart(rest)) || !ok && !validPart(name) {
		return node.Errorf(node.Invalid, "cannot use name %q: it must be NAME or FOLDER/NAME of a-z, 0-9, '-', '_', '.'", clip.Text(name, maxName))
	}
	return nil
}

func validPart(s string) bool {
	if s == "" || len(s) > maxName || !alphanumeric(s[0]) {
		return false
	}
	for _, c := range []byte(s) {
		if !alphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
