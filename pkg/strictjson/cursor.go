package strictjson

import "encoding/json"

// cursor moves through a valid JSON text.
type cursor struct {
	text []byte
	at   int
}

func (c *cursor) space() {
	for c.at < len(c.text) {
		switch c.text[c.at] {
		case ' ', '\t', '\r', '\n':
			c.at++
		default:
			return
		}
	}
}

// peek skips white space and returns the next byte, 0 at the end.
func (c *cursor) peek() byte {
	c.space()
	if c.at == len(c.text) {
		return 0
	}
	return c.text[c.at]
}

// take skips white space and the next byte if it is b.
func (c *cursor) take(b byte) bool {
	if c.peek() != b {
		return false
	}
	c.at++
	return true
}

// str returns the string that begins here, with its quotes.
func (c *cursor) str() []byte {
	start := c.at
	for c.at++; c.text[c.at] != '"'; c.at++ {
		if c.text[c.at] == '\\' {
			c.at++
		}
	}
	c.at++
	return c.text[start:c.at]
}

// scalar returns the number or literal that begins here.
func (c *cursor) scalar() []byte {
	start := c.at
	for c.at < len(c.text) {
		switch c.text[c.at] {
		case ' ', '\t', '\r', '\n', ',', ']', '}':
			return c.text[start:c.at]
		}
		c.at++
	}
	return c.text[start:]
}

// skip returns the value that begins here.
func (c *cursor) skip() []byte {
	c.space()
	start := c.at
	for depth := 0; ; {
		switch c.peek() {
		case '{', '[':
			depth++
			c.at++
		case '}', ']':
			depth--
			c.at++
		case ',', ':':
			c.at++
			continue
		case '"':
			c.str()
		default:
			c.scalar()
		}
		if depth == 0 {
			return c.text[start:c.at]
		}
	}
}

// member is a member of an object, its value unchanged from the text.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the members of an object, in order.
func members(object []byte) []member {
	c := cursor{text: object}
	var out []member
	if !c.take('{') {
		return nil
	}
	for c.peek() == '"' {
		m := member{name: unquote(c.str())}
		c.take(':')
		m.value = c.skip()
		out = append(out, m)
		c.take(',')
	}
	return out
}

// unquote returns the text of a valid JSON string.
func unquote(raw []byte) string {
	for _, b := range raw {
		if b == '\\' {
			var s string
			// A valid string can't fail.
			_ = json.Unmarshal(raw, &s)
			return s
		}
	}
	return string(raw[1 : len(raw)-1])
}
