package console

import "unicode/utf8"

// key is one that was pressed: a printable ASCII character, or one of those below.
type key byte

const (
	noKey     key = 0
	enter     key = '\r'
	escape    key = 0x1b
	backspace key = 0x7f
	up        key = 0x80
	down      key = 0x81
)

// mostSequence bounds an escape sequence that is waited for, in bytes.
const mostSequence = 16

// decode reads keys from what a terminal sent. rest is the beginning of a sequence whose end hasn't come. An unknown sequence, such as that
// of a function key, is no key at all: its letters must not be taken for an operator's.
func decode(in []byte) (keys []key, rest []byte) {
	for len(in) > 0 {
		k, n := one(in)
		if n == 0 {
			if len(in) < mostSequence {
				return keys, in
			}
			return keys, nil
		}
		if k != noKey {
			keys = append(keys, k)
		}
		in = in[n:]
	}
	return keys, nil
}

// one reads the first key, and how many bytes it has; none if more must come.
func one(in []byte) (key, int) {
	switch c := in[0]; {
	case c == 0x1b:
		return sequence(in)
	case c == '\r' || c == '\n':
		return enter, 1
	case c == 0x7f || c == 0x08:
		return backspace, 1
	case c == 0x03 || c == 0x04: // ^C and ^D leave a question, too
		return escape, 1
	case c >= ' ' && c <= '~':
		return key(c), 1
	case c >= utf8.RuneSelf:
		_, n := utf8.DecodeRune(in)
		return noKey, n
	}
	return noKey, 1
}

// alone is what the beginning of a sequence is that nothing follows for a while: ESC is a key then.
func alone(rest []byte) []key {
	if len(rest) == 1 {
		return []key{escape}
	}
	return nil
}

// sequence reads an escape sequence.
func sequence(in []byte) (key, int) {
	if len(in) == 1 {
		return noKey, 0
	}
	switch in[1] {
	case 'O':
		if len(in) < 3 {
			return noKey, 0
		}
		return arrow(in[2]), 3
	case '[':
	default:
		return noKey, 2 // with Alt
	}
	if len(in) >= 3 && in[2] == '[' { // a function key of the Linux console
		if len(in) < 4 {
			return noKey, 0
		}
		return noKey, 4
	}
	for n := 2; n < len(in); n++ {
		if c := in[n]; c >= 0x40 && c <= 0x7e {
			if n == 2 {
				return arrow(c), 3
			}
			return noKey, n + 1
		}
	}
	return noKey, 0
}

func arrow(c byte) key {
	switch c {
	case 'A':
		return up
	case 'B':
		return down
	}
	return noKey
}
