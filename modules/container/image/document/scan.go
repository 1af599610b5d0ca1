package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// scanner walks through JSON of which it is known that it is valid.
type scanner struct {
	raw []byte
	at  int
}

func invalid(format string, args ...any) error {
	return node.Errorf(node.Invalid, "cannot use the image: "+format, args...)
}

// open begins to read a document, whose value must be one of kind '{' or '['.
func open(raw []byte, what string, kind byte) (*scanner, error) {
	switch {
	case len(raw) > MostBytes:
		Bytes.Reached()
		return nil, invalid("its %s has %d bytes, at most %d are allowed", what, len(raw), MostBytes)
	case !json.Valid(raw):
		return nil, invalid("its %s can't be read: it isn't JSON", what)
	}
	s := &scanner{raw: raw}
	if s.next() != kind {
		return nil, invalid("its %s can't be read: it must begin with %c", what, kind)
	}
	return s, nil
}

// next is the first byte of the next value, or the byte that ends the enclosing
// one.
func (s *scanner) next() byte {
	for {
		switch c := s.raw[s.at]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
			s.at++
		default:
			return c
		}
	}
}

// null passes over a null, and reports whether there was one.
func (s *scanner) null() bool {
	if s.next() != 'n' {
		return false
	}
	s.at += len("null")
	return true
}

// skip passes over a value.
func (s *scanner) skip() {
	switch s.next() {
	case '"':
		s.text()
		return
	case '{', '[':
	default:
		for s.at < len(s.raw) && !bytes.ContainsRune([]byte(" \t\r\n,:]}"), rune(s.raw[s.at])) {
			s.at++
		}
		return
	}
	for depth := 0; ; {
		switch s.next() {
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			s.at++
			if depth--; depth == 0 {
				return
			}
		case '"':
			s.text()
		default:
			s.at++
		}
	}
}

// text passes over a string, and returns it with its quotes.
func (s *scanner) text() []byte {
	from := s.at
	for s.at++; s.raw[s.at] != '"'; s.at++ {
		if s.raw[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
	return s.raw[from:s.at]
}

// str reads a string of at most so many bytes as they are written; null is none.
func (s *scanner) str(name string, most int) (string, error) {
	if s.null() {
		return "", nil
	}
	if s.next() != '"' {
		return "", invalid("its %s must be a string", name)
	}
	quoted := s.text()
	if len(quoted)-2 > most {
		return "", invalid("its %s has %d bytes, at most %d are allowed", name, len(quoted)-2, most)
	}
	var out string
	if err := json.Unmarshal(quoted, &out); err != nil {
		return "", invalid("its %s can't be read", name)
	}
	return out, nil
}

// number reads a whole number.
func (s *scanner) number(name string) (int64, error) {
	if s.null() {
		return 0, nil
	}
	s.next()
	from := s.at
	s.skip()
	n, err := strconv.ParseInt(string(s.raw[from:min(s.at, from+32)]), 10, 64)
	if err != nil {
		return 0, invalid("its %s must be a whole number", name)
	}
	return n, nil
}

// object reads the members that known says how to; others are passed over. One
// that is there twice is an error: readers would differ about which counts.
func (s *scanner) object(name string, known map[string]func() error) error {
	if s.null() {
		return nil
	}
	if s.next() != '{' {
		return invalid("its %s must be an object", name)
	}
	seen := 0
	var which [16]string
	for s.at++; s.next() != '}'; {
		key := s.text()
		read, ok := known[string(key[1:len(key)-1])]
		if !ok {
			s.skip()
			continue
		}
		inner := string(key[1 : len(key)-1])
		for _, before := range which[:seen] {
			if before == inner {
				return invalid("its %s has %s twice", name, inner)
			}
		}
		which[seen], seen = inner, seen+1
		if err := read(); err != nil {
			return err
		}
	}
	s.at++
	return nil
}

// list reads an array with one, which is told how many came before. More than
// most end it.
func (s *scanner) list(name string, most limit.Limit, one func(n int) error) error {
	if s.null() {
		return nil
	}
	if s.next() != '[' {
		return invalid("its %s must be a list", name)
	}
	s.at++
	for n := 0; s.next() != ']'; n++ {
		if n >= int(most.Each) {
			if most.Name != "" {
				most.Reached()
			}
			return invalid("it has %s %s, at most %d are allowed", s.count(n), name, most.Each)
		}
		if err := one(n); err != nil {
			return err
		}
	}
	s.at++
	return nil
}

// upTo is a bound that isn't counted when it is reached.
func upTo(n int64) (l limit.Limit) {
	l.Each = n
	return l
}

// count is how many entries a list has of which n were read, for people.
func (s *scanner) count(n int) string {
	for ; s.next() != ']'; n++ {
		s.skip()
	}
	return fmt.Sprint(n)
}

// strings reads a list of strings.
func (s *scanner) strings(name string, into *[]string) error {
	return s.list(name, upTo(mostWords), func(int) error {
		text, err := s.str(name, mostText)
		*into = append(*into, text)
		return err
	})
}
