package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
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
func Check(text []byte, most int) error { return Rules{Bytes: most}.Check(text) }

// CheckNumbers is Check for a text at path of its document, whose canonical form is
// signed: numbers beyond ±MaxInteger are refused too, however they are written, for
// JSON libraries round them, each in its way.
func CheckNumbers(path string, text []byte, most int) error {
	return Rules{Name: path, Path: path, Bytes: most, Numbers: true}.Check(text)
}

// Rules are what is required of a text beyond a Check's rules.
type Rules struct {
	// Name is what errors call the text, "document" when it is empty; Path is its path in its
	// document.
	Name, Path string
	// Bytes is the most bytes of the text.
	Bytes int
	// Numbers refuses numbers beyond ±MaxInteger.
	Numbers bool
	// Levels is how deep objects and arrays may nest, also empty ones, which MaxDepth doesn't
	// count; NameBytes is the most bytes of a name. 0 is no further limit.
	Levels, NameBytes int
	// Folded refuses names that differ only in case: encoding/json takes them for the same member.
	Folded bool
}

// Check checks a text. Some errors are of type *fielderror.Error.
func (r Rules) Check(text []byte) error {
	if r.Name == "" {
		r.Name = "document"
	}
	return (&checker{Rules: r, text: text}).check()
}

// checker reads a text once. Paths are built only for an error, by a second reader:
// names may be long.
type checker struct {
	Rules
	text []byte
	in   *jsontext.Decoder
	// values is the number of values so far.
	values int
	// whole is a copy of the text, made at the first name.
	whole string
}

// fault is a refused value or name. The text at offset belongs to it.
type fault struct {
	offset  int64
	value   any
	allowed string
}

func (*fault) Error() string { return "refused" }

func (s *checker) check() error {
	if len(s.text) > s.Bytes {
		return errors.Errorf("cannot read %s: it has %d bytes, at most %d are allowed", s.Name, len(s.text), s.Bytes)
	}
	// A set of its own is cheaper than the library's for wide objects.
	s.in = jsontext.NewDecoder(bytes.NewBuffer(s.text), jsontext.AllowDuplicateNames(true))
	err := s.all()
	if err == nil {
		return nil
	}
	// A text that isn't JSON at all is refused for that, whatever stands before the place.
	if !utf8.Valid(s.text) {
		return errors.Errorf("cannot read %s: it isn't UTF-8", s.Name)
	}
	if !json.Valid(s.text) {
		var raw json.RawMessage
		return errors.Wrapf(json.Unmarshal(s.text, &raw), "cannot read %s", s.Name)
	}
	return s.explain(err)
}

// explain is the error for a text that is JSON.
func (s *checker) explain(err error) error {
	var wrong *fault
	if errors.As(err, &wrong) {
		return fielderror.New(s.at(wrong.offset), wrong.value, wrong.allowed)
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return err
	}
	half := s.text[syntax.ByteOffset:]
	if !bytes.HasPrefix(half, []byte(`\u`)) {
		return errors.Wrapf(err, "cannot read %s", s.Name)
	}
	return fielderror.New(s.at(syntax.ByteOffset), fielderror.Words("a text with half of a surrogate pair, "+string(half[:6])), "valid Unicode")
}

// at is the path of the value or the member whose text is at an offset.
func (s *checker) at(offset int64) string {
	in := accepted(s.text)
	for in.InputOffset() <= offset {
		if _, err := in.ReadToken(); err != nil {
			break
		}
	}
	path, depth := s.Path, 0
	for token := range in.StackPointer().Tokens() {
		if len(path) > fielderror.MaxShown {
			break
		}
		depth++
		if kind, _ := in.StackIndex(depth); kind == '[' {
			path += "[" + token + "]"
		} else {
			path = fielderror.Join(path, clip.Text(token, fielderror.MaxShown))
		}
	}
	if path == "" {
		return s.Name
	}
	return path
}

// accepted reads a text that a checker has accepted.
func accepted(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// all reads one value and the end.
func (s *checker) all() error {
	if err := s.value(); err != nil {
		return err
	}
	if _, err := s.in.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.Errorf("cannot read %s: it has more than one value", s.Name)
	}
	return nil
}

func (s *checker) value() error {
	if s.values++; s.values > MaxValues {
		return errors.Errorf("cannot read %s: it has more than %d values", s.Name, MaxValues)
	}
	switch s.in.PeekKind() {
	case '{':
		return s.object()
	case '[':
		return s.array()
	case '0':
		return s.number()
	}
	_, err := s.in.ReadValue()
	return err
}

// open enters an object or an array.
func (s *checker) open() error {
	if _, err := s.in.ReadToken(); err != nil {
		return err
	}
	if s.Levels > 0 && s.in.StackDepth() > s.Levels {
		return s.deeper(s.Levels)
	}
	return nil
}

// next checks the depth of the next member or item.
func (s *checker) next() error {
	if s.in.StackDepth() > MaxDepth {
		return s.deeper(MaxDepth)
	}
	return nil
}

func (s *checker) deeper(most int) error {
	return errors.Errorf("cannot read %s: it lies deeper than %d objects and arrays", s.Name, most)
}

func (s *checker) object() error {
	if err := s.open(); err != nil {
		return err
	}
	start := s.in.InputOffset() - 1
	var seen names
	for s.in.PeekKind() != '}' {
		if err := s.next(); err != nil {
			return err
		}
		if err := s.name(&seen); err != nil {
			return err
		}
		if seen.len() > MaxMembers {
			return &fault{start, fielderror.Words("an object of more members"), fmt.Sprintf("an object of at most %d members", MaxMembers)}
		}
		if err := s.value(); err != nil {
			return err
		}
	}
	_, err := s.in.ReadToken()
	return err
}

// name reads the name of a member.
func (s *checker) name(seen *names) error {
	raw, err := s.in.ReadValue()
	if err != nil {
		return err
	}
	name, err := s.nameOf(raw)
	if err != nil {
		return err
	}
	here := s.in.InputOffset() - 1
	if s.NameBytes > 0 && len(name) > s.NameBytes {
		return &fault{here, fielderror.Words("a longer name"), fmt.Sprintf("a name of at most %d bytes", s.NameBytes)}
	}
	if s.Folded {
		name = strings.Map(folded, name)
	}
	if !seen.add(name) {
		return &fault{here, fielderror.Twice, "there once"}
	}
	return nil
}

// folded returns the least letter that r is a case of, as encoding/json folds names: "ſ" is a case of "S".
func folded(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}

func (s *checker) array() error {
	if err := s.open(); err != nil {
		return err
	}
	for s.in.PeekKind() != ']' {
		if err := s.next(); err != nil {
			return err
		}
		if err := s.value(); err != nil {
			return err
		}
	}
	_, err := s.in.ReadToken()
	return err
}

// number refuses a number whose double is beyond ±MaxInteger: every double
// there is an integer.
func (s *checker) number() error {
	token, err := s.in.ReadToken()
	if err != nil || !s.Numbers {
		return err
	}
	if v, err := token.Float(); err != nil || math.Abs(v) > MaxInteger {
		return &fault{s.in.InputOffset() - 1, json.Number(token.String()), fmt.Sprintf("a number from %d to %d", -MaxInteger, MaxInteger)}
	}
	return nil
}

// nameOf is a name's text. One without escapes is a part of the whole text, which
// is copied once, not for each name.
func (s *checker) nameOf(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') >= 0 {
		return unquote(raw)
	}
	if s.whole == "" {
		s.whole = string(s.text)
	}
	end := int(s.in.InputOffset())
	return s.whole[end-len(raw)+1 : end-1], nil
}

// unquote is the text of a JSON string.
func unquote(raw []byte) (string, error) {
	text, err := jsontext.AppendUnquote(nil, raw)
	return string(text), errors.Wrap(err, "cannot read a text")
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
