package workload

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/clip"
)

// field reads one member of a document.
type field struct {
	read func(path string, raw json.RawMessage) error
	// optional says that the member may be absent, or null.
	optional bool
}

// document says how an object is read. Names are matched exactly: a name in
// another case is refused, for there are libraries to which it is the same one.
type document struct {
	path   string
	fields map[string]field
	// open lets unknown members pass; draft lets any be absent.
	open  bool
	draft bool
}

func (d document) read(object []byte) error {
	list := members(object)
	if list == nil && !bytes.HasPrefix(bytes.TrimLeft(object, " \t\r\n"), []byte("{")) {
		return refuse(d.name(), words("not an object"), "an object")
	}
	seen := map[string]bool{}
	for _, m := range list {
		path := join(d.path, m.name)
		f, ok := d.fields[m.name]
		if !ok {
			if err := d.stranger(path, m.name); err != nil {
				return err
			}
			continue
		}
		null := string(m.value) == "null"
		if f.optional && null {
			continue
		}
		seen[m.name] = true
		if err := f.read(path, m.value); err != nil {
			return err
		}
	}
	return d.complete(seen)
}

// stranger refuses a name that isn't known.
func (d document) stranger(path, name string) error {
	for known := range d.fields {
		if strings.EqualFold(known, name) {
			return refuse(path, words("in another case"), "written %q", known)
		}
	}
	if d.open {
		return nil
	}
	return refuse(path, unknown, "a member of %s", d.name())
}

func (d document) complete(seen map[string]bool) error {
	if d.draft {
		return nil
	}
	for name, f := range d.fields {
		if !f.optional && !seen[name] {
			return refuse(join(d.path, name), missing, "there")
		}
	}
	return nil
}

func (d document) name() string {
	if d.path == "" {
		return "document"
	}
	return d.path
}

func readString[S ~string](to *S) field {
	return field{read: func(path string, raw json.RawMessage) error {
		if raw[0] != '"' {
			return refuse(path, words(clip.Text(string(raw), maxShown)), "a text")
		}
		*to = S(unquote(raw))
		return nil
	}}
}

func readBool(to *bool) field {
	return field{read: func(path string, raw json.RawMessage) error {
		*to = string(raw) == "true"
		if !*to && string(raw) != "false" {
			return refuse(path, words(clip.Text(string(raw), maxShown)), "true or false")
		}
		return nil
	}}
}

// readData keeps the value byte for byte.
func readData(to *json.RawMessage) field {
	return field{read: func(path string, raw json.RawMessage) error {
		*to = bytes.Clone(raw)
		return checkPart(path, raw)
	}}
}

// readBytes reads standard base64, with padding and without line breaks: one
// text for the same bytes.
func readBytes(to *[]byte) field {
	return field{optional: true, read: func(path string, raw json.RawMessage) error {
		var text string
		if err := readString(&text).read(path, raw); err != nil {
			return err
		}
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || strings.ContainsAny(text, "\r\n") {
			return refuse(path, text, "standard base64")
		}
		*to = b
		return nil
	}}
}

// readTime reads RFC 3339 with at most nine digits of a second, in the range
// that int64 nanoseconds since 1970 have: the signature covers these.
func readTime(to *time.Time, draft bool) field {
	return field{read: func(path string, raw json.RawMessage) error {
		var text string
		if err := readString(&text).read(path, raw); err != nil {
			return err
		}
		var t time.Time
		if err := t.UnmarshalText([]byte(text)); err != nil || tooFine(text) {
			return refuse(path, text, "a time as RFC 3339 writes it, with at most 9 digits of a second")
		}
		if !inRange(t) && (!draft || !t.IsZero()) {
			return refuse(path, text, "a time from %s to %s", minTime().Format(time.DateOnly), maxTime().Format(time.DateOnly))
		}
		*to = t.UTC()
		return nil
	}}
}

func tooFine(text string) bool {
	_, fraction, ok := strings.Cut(text, ".")
	return ok && strings.IndexFunc(fraction, func(c rune) bool { return c < '0' || c > '9' }) > 9
}

// readInt reads an integer of the range of T in any of JSON's forms of it:
// 1000, 1e3, 1000.0.
func readInt[T ~int64 | ~int](to *T) field {
	return field{read: func(path string, raw json.RawMessage) error {
		v, ok := integer(string(raw))
		if !ok {
			return refuse(path, words(clip.Text(string(raw), maxShown)), "an integer of 64 bits")
		}
		*to = T(v)
		return nil
	}}
}

// maxNumberText is the longest text of an integer that is worth a look.
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
