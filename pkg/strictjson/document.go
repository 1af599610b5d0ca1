package strictjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/fielderror"
)

// Field reads one member of a document.
type Field struct {
	// Read reads the member's value, which lies at path.
	Read func(path string, raw json.RawMessage) error
	// Optional lets the member be absent, or null.
	Optional bool
}

// Document describes how an object is read. Names are matched exactly: a name in
// another case is refused, for some libraries take it for the same one.
type Document struct {
	// Path is the object's path; empty for the whole text.
	Path   string
	Fields map[string]Field
	// Open accepts unknown members; Draft lets any be absent.
	Open  bool
	Draft bool
}

// Read reads an object of a text that Check has accepted. A refused member is a
// *fielderror.Error.
func (d Document) Read(object []byte) error {
	in := accepted(object)
	if in.PeekKind() != '{' {
		return fielderror.New(d.name(), fielderror.Words("not an object"), "an object")
	}
	if _, err := in.ReadToken(); err != nil {
		return errors.Wrapf(err, "cannot read %s", d.name())
	}
	seen := map[string]bool{}
	for in.PeekKind() != '}' {
		name, value, err := member(in)
		if err != nil {
			return errors.Wrapf(err, "cannot read %s", d.name())
		}
		if err := d.member(seen, name, value); err != nil {
			return err
		}
	}
	return d.complete(seen)
}

// member returns the next member, its value unchanged from the text.
func member(in *jsontext.Decoder) (name string, value json.RawMessage, err error) {
	token, err := in.ReadToken()
	if err != nil {
		return "", nil, err
	}
	name = token.String()
	raw, err := in.ReadValue()
	return name, json.RawMessage(raw), err
}

// member reads one member.
func (d Document) member(seen map[string]bool, name string, value json.RawMessage) error {
	path := fielderror.Join(d.Path, name)
	f, ok := d.Fields[name]
	if !ok {
		return d.stranger(path, name)
	}
	if f.Optional && string(value) == "null" {
		return nil
	}
	seen[name] = true
	return f.Read(path, value)
}

// stranger refuses an unknown name.
func (d Document) stranger(path, name string) error {
	for known := range d.Fields {
		if strings.EqualFold(known, name) {
			return fielderror.New(path, fielderror.Words("in another case"), "written %q", known)
		}
	}
	if d.Open {
		return nil
	}
	return fielderror.New(path, fielderror.Unknown, "a member of %s", d.name())
}

func (d Document) complete(seen map[string]bool) error {
	if d.Draft {
		return nil
	}
	for name, f := range d.Fields {
		if !f.Optional && !seen[name] {
			return fielderror.New(fielderror.Join(d.Path, name), fielderror.Missing, "there")
		}
	}
	return nil
}

func (d Document) name() string {
	if d.Path == "" {
		return "document"
	}
	return d.Path
}

// String reads a text.
func String[S ~string](to *S) Field {
	return Field{Read: func(path string, raw json.RawMessage) error {
		if raw[0] != '"' {
			return fielderror.New(path, fielderror.Words(clip.Text(string(raw), fielderror.MaxShown)), "a text")
		}
		text, err := unquote(raw)
		*to = S(text)
		return err
	}}
}

// Bool reads true or false.
func Bool(to *bool) Field {
	return Field{Read: func(path string, raw json.RawMessage) error {
		*to = string(raw) == "true"
		if !*to && string(raw) != "false" {
			return fielderror.New(path, fielderror.Words(clip.Text(string(raw), fielderror.MaxShown)), "true or false")
		}
		return nil
	}}
}

// Data keeps a value of at most most bytes, byte for byte, and checks it as CheckNumbers does.
func Data(to *json.RawMessage, most int) Field {
	return Field{Read: func(path string, raw json.RawMessage) error {
		*to = bytes.Clone(raw)
		return CheckNumbers(path, raw, most)
	}}
}

// Bytes reads standard base64, with padding and without line breaks: one
// text for the same bytes.
func Bytes(to *[]byte) Field {
	return Field{Optional: true, Read: func(path string, raw json.RawMessage) error {
		var text string
		if err := String(&text).Read(path, raw); err != nil {
			return err
		}
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || strings.ContainsAny(text, "\r\n") {
			return fielderror.New(path, text, "standard base64")
		}
		*to = b
		return nil
	}}
}

// Int reads an integer of the range of T in any of JSON's notations:
// 1000, 1e3, 1000.0.
func Int[T ~int64 | ~int](to *T) Field {
	return Field{Read: func(path string, raw json.RawMessage) error {
		v, ok := integer(string(raw))
		if !ok {
			return fielderror.New(path, fielderror.Words(clip.Text(string(raw), fielderror.MaxShown)), "an integer of 64 bits")
		}
		*to = T(v)
		return nil
	}}
}

// maxNumberText is the longest text that is parsed as an integer.
const maxNumberText = 40

func integer(text string) (int64, bool) {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v, true
	}
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if n, err := strconv.Atoi(exponent); exponent != "" && (err != nil || n > maxNumberText || n < -maxNumberText) {
		return 0, false
	}
	if len(text) > maxNumberText || text[0] == '"' {
		return 0, false
	}
	v, ok := new(big.Rat).SetString(text)
	if !ok || !v.IsInt() || !v.Num().IsInt64() {
		return 0, false
	}
	return v.Num().Int64(), true
}
