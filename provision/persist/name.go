package persist

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
)

// longestPlain is the longest key that is a name as it is. hashedPrefix begins the key of any other name; a plain one never
// begins so.
const (
	longestPlain = 128
	hashedPrefix = "_"
)

// KeyOf is the key of a name: the name itself if it is short, begins with a letter or a digit, and has only a-z, 0-9, '.' and '-'; else
// a hash of it. Keys are valid names of files and of S3 objects, also where case doesn't count.
func KeyOf(name string) Key {
	if plain(name) {
		return Key(name)
	}
	sum := sha256.Sum256([]byte(name))
	return Key(hashedPrefix + hex.EncodeToString(sum[:]))
}

// Valid reports whether k may be a key.
func (k Key) Valid() bool {
	hash, hashed := strings.CutPrefix(string(k), hashedPrefix)
	if !hashed {
		return plain(string(k))
	}
	raw, err := hex.DecodeString(hash)
	return err == nil && len(raw) == sha256.Size && strings.ToLower(hash) == hash
}

func plain(name string) bool {
	if name == "" || len(name) > longestPlain || !alphanumeric(name[0]) {
		return false
	}
	for _, c := range []byte(name) {
		if !alphanumeric(c) && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool { return letter(c) || c >= '0' && c <= '9' }

func letter(c byte) bool { return c >= 'a' && c <= 'z' }

// Check returns an Invalid error if k can't be a kind.
func (k Kind) Check() error {
	ok := k != "" && len(k) <= MaxKind && letter(k[0])
	for _, c := range []byte(k) {
		ok = ok && (alphanumeric(c) || c == '-')
	}
	if !ok {
		return node.Errorf(node.Invalid, "cannot use kind %q: it must have 1 to %d of a-z, 0-9 and '-', and begin with a letter", clip.Text(string(k), MaxKind), MaxKind)
	}
	return nil
}

// Check returns an Invalid error that names what is wrong with an object.
func (o Object) Check() error {
	if err := o.Kind.Check(); err != nil {
		return err
	}
	switch {
	case o.Name == "" || len(o.Name) > MaxName || !utf8.ValidString(o.Name):
		return node.Errorf(node.Invalid, "cannot use name %q of %d bytes: it must be UTF-8 text of 1 to %d bytes", clip.Text(o.Name, 64), len(o.Name), MaxName)
	case len(o.Body) > MaxBody:
		return node.Errorf(node.Invalid, "cannot keep %s %q: it has %d bytes, at most %d are allowed", o.Kind, clip.Text(o.Name, 64), len(o.Body), MaxBody)
	}
	return nil
}

// nameHash is how many bytes of a hash an instance's name has.
const nameHash = 8

// InstanceName is KIND-HASH of an instance's settings, which hold no secrets: the same settings have the same name, on every
// machine and after every restart. settings must be a struct that JSON can hold.
func InstanceName(kind string, settings any) (string, error) {
	text, err := json.Marshal(settings)
	if err != nil {
		return "", node.WithKind(node.Invalid, errors.Wrapf(err, "cannot name an instance of %s", kind))
	}
	sum := sha256.Sum256(text)
	return kind + "-" + hex.EncodeToString(sum[:nameHash]), nil
}
