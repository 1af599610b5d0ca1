package secret

import (
	"bytes"
	"crypto/subtle"
	"fmt"

	"github.com/rs/zerolog"
)

// hidden is what a Value shows of itself.
const hidden = "***"

// Value is a secret. Whatever prints or encodes it gets "***", also where it is a member of something else; only Reveal and Text
// give it. Its zero value is none.
type Value struct {
	// get is a function because nothing that goes through members, such as fmt with an unexported one, sees into it.
	get func() []byte
}

// The ways by which values get out.
var (
	_ fmt.Formatter                = Value{}
	_ fmt.GoStringer               = Value{}
	_ zerolog.LogObjectMarshaler   = Value{}
	_ interface{ String() string } = Value{}
)

// New makes a secret of bytes, which it copies.
func New(b []byte) Value {
	kept := bytes.Clone(b)
	return Value{get: func() []byte { return kept }}
}

// read is the secret itself.
func (v Value) read() []byte {
	if v.get == nil {
		return nil
	}
	return v.get()
}

// Reveal returns the secret. Its caller passes it on at once, and keeps it nowhere.
func (v Value) Reveal() []byte { return bytes.Clone(v.read()) }

// Text returns the secret as text, less one newline at its end, which editors leave there.
func (v Value) Text() string { return string(bytes.TrimSuffix(v.read(), []byte("\n"))) }

// IsZero reports whether there is none.
func (v Value) IsZero() bool { return len(v.read()) == 0 }

// Equal compares two secrets in a time that doesn't tell where they differ.
func (v Value) Equal(w Value) bool { return subtle.ConstantTimeCompare(v.read(), w.read()) == 1 }

// Format hides the secret from every verb.
func (v Value) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

func (Value) String() string { return hidden }

// GoString hides the secret from %#v.
func (Value) GoString() string { return hidden }

// MarshalText hides the secret from encoders of text.
func (Value) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON hides the secret from JSON.
func (Value) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MarshalYAML hides the secret from YAML.
func (Value) MarshalYAML() (any, error) { return hidden, nil }

// MarshalBinary hides the secret from gob and its like.
func (Value) MarshalBinary() ([]byte, error) { return []byte(hidden), nil }

// MarshalZerologObject hides the secret from the log.
func (Value) MarshalZerologObject(e *zerolog.Event) { e.Str("secret", hidden) }
