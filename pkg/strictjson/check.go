package strictjson

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/fielderror"
)

// Limits of a text. They bound the cost of a check: nothing is known of the
// sender yet.
const (
	// MaxDepth is how deep objects and arrays may nest.
	MaxDepth = 32
	// MaxMembers is how many members one object may have.
	MaxMembers = 256
	// MaxValues is how many values a text may have in all, with objects and arrays:
	// more of them would be too short to mean anything.
	MaxValues = 32 << 10
	// MaxInteger is the largest number in a text that CheckNumbers accepts, and with a
	// minus sign the smallest: the integers that every JSON library keeps exactly.
	MaxInteger = 1<<53 - 1
)

// Check refuses a text of more than most bytes, and a text that isn't one JSON value
// that every library reads alike: invalid UTF-8, half of a surrogate pair, a name
// twice in an object; or one beyond the limits. Some errors are of type *fielderror.Error.
func Check(text []byte, most int) error {
	return check(&checker{cursor: cursor{text: text}}, text, most)
}

// CheckNumbers is Check for a text at path of its document, whose canonical form is
// signed: numbers beyond ±MaxInteger are refused too, however they are written, for
// JSON libraries round them, each in its way.
func CheckNumbers(path string, text []byte, most int) error {
	return check(&checker{cursor: cursor{text: text}, path: path, numbers: true}, text, most)
}

func check(s *checker, text []byte, most int) error {
	if err := s.checkSize(most); err != nil {
		return err
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

// checkPart is CheckNumbers for a value in a text that Check has accepted.
func checkPart(path string, value []byte, most int) error {
	s := checker{cursor: cursor{text: value}, path: path, numbers: true}
	if err := s.checkSize(most); err != nil {
		return err
	}
	return s.value()
}

func (s *checker) checkSize(most int) error {
	if len(s.text) > most {
		return errors.Errorf("cannot read %s: it has %d bytes, at most %d are allowed", s.name(), len(s.text), most)
	}
	return nil
}

// checker checks a valid JSON text.
type checker struct {
	cursor
	// path is the path of the whole text in its document.
	path    string
	numbers bool
	// steps lead from path to the cursor. The path is built from them only
	// when it is needed: names may be long.
	steps []step
	// values is the number of values so far.
	values int
	// whole is a copy of the text, made at the first name.
	whole string
}

// step leads to a member, or to an item where name is nil.
type step struct {
	name  []byte
	index int
}

func (s *checker) name() string {
	if s.path == "" {
		return "document"
	}
	return s.path
}

// here is the path of the value at the cursor.
func (s *checker) here() string {
	path := s.path
	for _, st := range s.steps {
		if len(path) > fielderror.MaxShown {
			break
		}
		if st.name == nil {
			path = fielderror.Index(path, st.index)
		} else {
			path = fielderror.Join(path, clip.Text(unquote(st.name), fielderror.MaxShown))
		}
	}
	if path == "" {
		return "document"
	}
	return path
}

func (s *checker) enter(st step) error {
	s.steps = append(s.steps, st)
	if len(s.steps) > MaxDepth {
		return errors.Errorf("cannot read %s: it lies deeper than %d objects and arrays", s.name(), MaxDepth)
	}
	return nil
}

func (s *checker) leave() { s.steps = s.steps[:len(s.steps)-1] }

func (s *checker) value() error {
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

func (s *checker) object() error {
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
			return fielderror.New(s.here(), fielderror.Twice, "there once")
		}
		if seen.len() > MaxMembers {
			s.leave()
			return fielderror.New(s.here(), fielderror.Words("an object of more members"), "an object of at most %d members", MaxMembers)
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

// names are the names of one object's members.
type names struct {
	few  [fewNames]string
	n    int
	many map[string]struct{}
}

// fewNames is the number of names that are compared one by one.
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
func (s *checker) nameOf(raw []byte) string {
	if bytes.IndexByte(raw, '\\') >= 0 {
		return unquote(raw)
	}
	if s.whole == "" {
		s.whole = string(s.text)
	}
	return s.whole[s.at-len(raw)+1 : s.at-1]
}

func (s *checker) array() error {
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
func (s *checker) number(literal []byte) error {
	if !s.numbers {
		return nil
	}
	v, err := strconv.ParseFloat(string(literal), 64)
	if err != nil || math.Abs(v) > MaxInteger {
		return fielderror.New(s.here(), json.Number(literal), "a number from %d to %d", -MaxInteger, MaxInteger)
	}
	return nil
}

// text16 refuses a string with half of a surrogate pair: libraries replace it
// by different characters.
func (s *checker) text16(raw []byte) error {
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
			return fielderror.New(s.here(), fielderror.Words("a text with half of a surrogate pair, "+string(rest[:6])), "valid Unicode")
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
