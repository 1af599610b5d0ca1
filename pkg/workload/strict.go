package workload

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
)

// checkText refuses what isn't one JSON value that every library reads alike:
// invalid UTF-8, lone surrogates, a name twice in an object, what is too long
// or too deep.
func checkText(text []byte) error {
	return check(&strict{cursor: cursor{text: text}}, text, MaxDocument)
}

// checkData is checkText for data, whose canonical form is signed: integers
// beyond ±MaxInteger are refused too, however they are written, for JSON
// libraries round them, each in its way.
func checkData(data []byte) error {
	return check(&strict{cursor: cursor{text: data}, path: "data", numbers: true}, data, MaxData)
}

func check(s *strict, text []byte, most int) error {
	if len(text) > most {
		return errors.Errorf("cannot read %s: it has %d bytes, at most %d are allowed", s.name(), len(text), most)
	}
	if !utf8.Valid(text) {
		return errors.Errorf("cannot read %s: it isn't UTF-8", s.name())
	}
	if !json.Valid(text) {
		var raw json.RawMessage
		return errors.Wrapf(json.Unmarshal(text, &raw), "cannot read %s", s.name())
	}
	return s.value()
}

// checkPart is checkData for data at path in a text that checkText has accepted.
func checkPart(path string, data []byte) error {
	s := strict{cursor: cursor{text: data}, path: path, numbers: true}
	if len(data) > MaxData {
		return errors.Errorf("cannot read %s: it has %d bytes, at most %d are allowed", path, len(data), MaxData)
	}
	return s.value()
}

// strict checks a valid JSON text.
type strict struct {
	cursor
	// path is of the whole text in its document.
	path    string
	numbers bool
	// steps lead from there to where the cursor is. The path is made of them
	// when it is needed only: names may be long.
	steps []step
	// values is how many there were.
	values int
	// whole is the text, once a name was read.
	whole string
}

// step leads to a member, or to an item where name is nil.
type step struct {
	name  []byte
	index int
}

func (s *strict) name() string {
	if s.path == "" {
		return "document"
	}
	return s.path
}

// here is the path of where the cursor is.
func (s *strict) here() string {
	path := s.path
	for _, st := range s.steps {
		if len(path) > maxShown {
			break
		}
		if st.name == nil {
			path = index(path, st.index)
		} else {
			path = join(path, clip.Text(unquote(st.name), maxShown))
		}
	}
	if path == "" {
		return "document"
	}
	return path
}

func (s *strict) enter(st step) error {
	s.steps = append(s.steps, st)
	if len(s.steps) > MaxDepth {
		return errors.Errorf("cannot read %s: it lies deeper than %d objects and arrays", s.name(), MaxDepth)
	}
	return nil
}

func (s *strict) leave() { s.steps = s.steps[:len(s.steps)-1] }

func (s *strict) value() error {
	if s.values++; s.values > MaxValues {
		return errors.Errorf("cannot read %s: it has more than %d values", s.name(), MaxValues)
	}
	switch c := s.peek(); {
	case c == '{':
		return s.object()
	case c == '[':
		return s.array()
	case c == '"':
		return s.text16(s.str())
	case c == '-' || (c >= '0' && c <= '9'):
		return s.number(s.scalar())
	}
	s.scalar()
	return nil
}

func (s *strict) object() error {
	s.take('{')
	var seen names
	for s.peek() == '"' {
		raw := s.str()
		if err := s.enter(step{name: raw}); err != nil {
			return err
		}
		if err := s.text16(raw); err != nil {
			return err
		}
		name := s.nameOf(raw)
		if !seen.add(name) {
			return refuse(s.here(), twice, "there once")
		}
		if seen.len() > MaxMembers {
			s.leave()
			return refuse(s.here(), words("an object of more members"), "an object of at most %d members", MaxMembers)
		}
		s.take(':')
		if err := s.value(); err != nil {
			return err
		}
		s.leave()
		s.take(',')
	}
	s.take('}')
	return nil
}

// names are those of one object.
type names struct {
	few  [fewNames]string
	n    int
	many map[string]struct{}
}

// fewNames is how many names are compared one by one.
const fewNames = 16

// add reports whether a name is new.
func (n *names) add(name string) bool {
	if n.many == nil && slices.Contains(n.few[:n.n], name) {
		return false
	}
	if n.many == nil && n.n < fewNames {
		n.few[n.n] = name
		n.n++
		return true
	}
	if n.many == nil {
		n.many = make(map[string]struct{}, 4*fewNames)
		for _, f := range n.few {
			n.many[f] = struct{}{}
		}
	}
	_, there := n.many[name]
	n.many[name] = struct{}{}
	return !there
}

func (n *names) len() int { return max(n.n, len(n.many)) }

// nameOf is a name's text. One without escapes is a part of the whole text, which
// is copied once, not for each name.
func (s *strict) nameOf(raw []byte) string {
	if bytes.IndexByte(raw, '\\') >= 0 {
		return unquote(raw)
	}
	if s.whole == "" {
		s.whole = string(s.text)
	}
	return s.whole[s.at-len(raw)+1 : s.at-1]
}

func (s *strict) array() error {
	s.take('[')
	for i := 0; !s.take(']'); i++ {
		if err := s.enter(step{index: i}); err != nil {
			return err
		}
		if err := s.value(); err != nil {
			return err
		}
		s.leave()
		s.take(',')
	}
	return nil
}

// number refuses a number whose double is beyond ±MaxInteger: every double
// there is an integer.
func (s *strict) number(literal []byte) error {
	if !s.numbers {
		return nil
	}
	v, err := strconv.ParseFloat(string(literal), 64)
	if err != nil || math.Abs(v) > MaxInteger {
		return refuse(s.here(), json.Number(literal), "a number from %d to %d", -MaxInteger, MaxInteger)
	}
	return nil
}

// text16 refuses a string with half of a surrogate pair: libraries replace it
// by different characters.
func (s *strict) text16(raw []byte) error {
	for rest := raw; ; {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 {
			return nil
		}
		rest = rest[i:]
		if rest[1] != 'u' {
			rest = rest[2:]
			continue
		}
		switch u := hex16(rest); {
		case u < 0xd800 || u > 0xdfff:
			rest = rest[6:]
		case u <= 0xdbff && len(rest) >= 12 && rest[6] == '\\' && rest[7] == 'u' && hex16(rest[6:])>>10 == 0xdc00>>10:
			rest = rest[12:]
		default:
			return refuse(s.here(), words("a text with half of a surrogate pair, "+string(rest[:6])), "valid Unicode")
		}
	}
}

// hex16 reads the four digits of \uXXXX.
func hex16(escape []byte) uint16 {
	var v uint16
	for _, b := range escape[2:6] { // valid JSON has four hexadecimal digits there
		switch {
		case b <= '9':
			b -= '0'
		default:
			b = b | 0x20 - 'a' + 10
		}
		v = v<<4 | uint16(b)
	}
	return v
}
