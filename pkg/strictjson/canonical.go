package strictjson

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
	"github.com/pkg/errors"
)

// Canonical returns a text in the form of RFC 8785 (JCS). It refuses, as CheckNumbers
// does, a text without one such form: names twice, half of a surrogate pair, numbers
// beyond ±MaxInteger.
//
// The checks come first: the writer relies on valid JSON.
func Canonical(path string, text []byte, most int) ([]byte, error) {
	if err := CheckNumbers(path, text, most); err != nil {
		return nil, err
	}
	c := canonical{cursor: cursor{text: text}, out: make([]byte, 0, len(text))}
	err := c.value()
	return c.out, err
}

// canonical writes a text that CheckNumbers has accepted in the form of RFC 8785. Its
// cost is linear in any text: the sender hasn't shown a valid signature yet. The
// library's isn't (it sorts an object's members in quadratic time and copies each
// value once a level).
type canonical struct {
	cursor
	out []byte
	// parts are the members of the objects around the cursor, the innermost's last.
	parts []part
	// scratch is for sorting.
	scratch []byte
}

// part is the place of a member in the output.
type part struct {
	name       []byte
	start, end int
}

func (c *canonical) value() error {
	switch b := c.peek(); {
	case b == '{':
		return c.object()
	case b == '[':
		return c.array()
	case b == '"':
		c.text16(c.str())
		return nil
	default:
		return c.scalarValue(c.scalar())
	}
}

func (c *canonical) array() error {
	c.take('[')
	c.out = append(c.out, '[')
	for first := true; !c.take(']'); first = false {
		if !first {
			c.out = append(c.out, ',')
		}
		if err := c.value(); err != nil {
			return err
		}
		c.take(',')
	}
	c.out = append(c.out, ']')
	return nil
}

// object writes the members in their order, then sorts them.
func (c *canonical) object() error {
	c.take('{')
	c.out = append(c.out, '{')
	start, first := len(c.out), len(c.parts)
	for c.peek() == '"' {
		p := part{start: len(c.out)}
		raw := c.str()
		if p.name = raw[1 : len(raw)-1]; bytes.IndexByte(raw, '\\') >= 0 {
			p.name = []byte(unquote(raw))
		}
		c.text16(raw)
		c.take(':')
		c.out = append(c.out, ':')
		if err := c.value(); err != nil {
			return err
		}
		p.end = len(c.out)
		c.parts = append(c.parts, p)
		// Each member is followed by a comma, the last one's is replaced below: any
		// may end up last.
		c.out = append(c.out, ',')
		c.take(',')
	}
	c.take('}')
	if parts := c.parts[first:]; len(parts) > 0 {
		c.sort(start, parts)
		c.out = c.out[:len(c.out)-1]
	}
	c.parts = c.parts[:first]
	c.out = append(c.out, '}')
	return nil
}

// sort orders the members written from start on, by the UTF-16 of
// their names.
func (c *canonical) sort(start int, parts []part) {
	less := func(a, b part) int { return compareUTF16(a.name, b.name) }
	if slices.IsSortedFunc(parts, less) {
		return
	}
	slices.SortFunc(parts, less)
	c.scratch = append(c.scratch[:0], c.out[start:]...)
	c.out = c.out[:start]
	for _, p := range parts {
		c.out = append(c.out, c.scratch[p.start-start:p.end-start]...)
		c.out = append(c.out, ',')
	}
}

// compareUTF16 compares valid UTF-8 in the order of UTF-16: characters beyond
// U+FFFF, which begin with 0xF0 and more, come before those from U+E000 to
// U+FFFF, which begin with 0xEE and 0xEF.
func compareUTF16(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x >= 0xee && y >= 0xee && (x >= 0xf0) != (y >= 0xf0) {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(x, y)
	}
	return cmp.Compare(len(a), len(b))
}

// text16 writes a string: unescaped parts stay unchanged.
func (c *canonical) text16(raw []byte) {
	for i := 0; i < len(raw); {
		switch {
		case raw[i] != '\\':
			c.out = append(c.out, raw[i])
			i++
		case raw[i+1] == 'u':
			i += c.escape(raw[i:])
		case raw[i+1] == '/':
			c.out = append(c.out, '/')
			i += 2
		default:
			c.out = append(c.out, '\\', raw[i+1])
			i += 2
		}
	}
}

// short are the two-character escapes that RFC 8785 requires.
func short(r rune) byte {
	switch r {
	case '"', '\\':
		return byte(r)
	case '\b':
		return 'b'
	case '\f':
		return 'f'
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	}
	return 0
}

// escape writes the character, or two, of the \uXXXX at the beginning of raw,
// and returns the length in raw.
func (c *canonical) escape(raw []byte) int {
	r, size := rune(hex16(raw)), 6
	if utf16.IsSurrogate(r) {
		r, size = utf16.DecodeRune(r, rune(hex16(raw[6:]))), 12
	}
	switch e := short(r); {
	case e != 0:
		c.out = append(c.out, '\\', e)
	case r < 0x20:
		const digits = "0123456789abcdef"
		c.out = append(c.out, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
	default:
		c.out = utf8.AppendRune(c.out, r)
	}
	return size
}

// plainDigits is the most digits of an integer that is copied unchanged.
const plainDigits = 15

func (c *canonical) scalarValue(literal []byte) error {
	if b := literal[0]; b == 't' || b == 'f' || b == 'n' || plain(literal) {
		c.out = append(c.out, literal...)
		return nil
	}
	v, err := strconv.ParseFloat(string(literal), 64)
	if err != nil {
		return errors.Wrap(err, "cannot make data canonical")
	}
	text, err := jcs.NumberToJSON(v)
	c.out = append(c.out, text...)
	return errors.Wrap(err, "cannot make data canonical")
}

// plain reports whether a number is an integer of a few digits alone.
func plain(literal []byte) bool {
	if len(literal) > plainDigits {
		return false
	}
	for _, b := range literal {
		if b < '0' || b > '9' {
			return false
		}
	}
	return true
}
