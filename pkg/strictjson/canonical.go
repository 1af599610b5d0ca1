package strictjson

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/pkg/errors"
)

// Canonical returns a text in the form of RFC 8785 (JCS). It refuses, as CheckNumbers
// does, a text without one such form: names twice, half of a surrogate pair, numbers
// beyond ±MaxInteger.
func Canonical(path string, text []byte, most int) ([]byte, error) {
	if err := CheckNumbers(path, text, most); err != nil {
		return nil, err
	}
	out := jsontext.Value(bytes.Clone(text))
	// Names and UTF-8 are checked already.
	if err := out.Canonicalize(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, errors.Wrap(err, "cannot make data canonical")
	}
	return out, nil
}
