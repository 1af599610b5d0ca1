package edit

import (
	"bytes"
	"reflect"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
)

// networksKey is the only one of the file that this package touches.
const networksKey = "networks"

// blank stands for a blank line while YAML, which forgets these, has the text.
const blank = "#\u00a0blank"

// usualIndent is the indentation of new lines where the file shows none.
const usualIndent = 2

// section is where the key networks stands: lines from start to end, of which
// the last isn't of it.
type section struct {
	lines      []string
	start, end int
}

// change has f change the file's networks.
func change(content []byte, f func(networks *yaml.Node) error) ([]byte, error) {
	s, err := find(content)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(marked(s.lines[s.start:s.end])), &doc); err != nil {
		return nil, errors.Wrap(err, "cannot change networks")
	}
	indent := usualIndent
	value := doc.Content[0].Content[1]
	if len(value.Content) > 0 && value.Style&yaml.FlowStyle == 0 {
		indent = max(value.Content[0].Column-1, usualIndent)
	}
	before, err := written(&doc, indent)
	if err != nil {
		return nil, err
	}
	if err := f(value); err != nil {
		return nil, err
	}
	after, err := written(&doc, indent)
	if err != nil {
		return nil, err
	}
	text := strings.Join(kept(s.lines[s.start:s.end], before, after), "")
	out := strings.Join(s.lines[:s.start], "") + text + strings.Join(s.lines[s.end:], "")
	return []byte(out), same(content, []byte(out))
}

// kept is after, with the lines as they are in the file wherever the change
// hasn't touched them: before is how they are written anew. A change touches
// one piece, so the lines before it and after it are the same.
func kept(lines, before, after []string) []string {
	if len(lines) != len(before) {
		return after
	}
	front, back, most := 0, 0, min(len(before), len(after))
	for front < most && before[front] == after[front] {
		front++
	}
	for back < most-front && before[len(before)-1-back] == after[len(after)-1-back] {
		back++
	}
	return slices.Concat(lines[:front], after[front:len(after)-back], lines[len(lines)-back:])
}

// find finds the section, and makes one behind all else when there is none.
func find(content []byte) (section, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil {
		return section{}, errors.Wrap(err, "cannot change networks")
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode || doc.Content[0].Style&yaml.FlowStyle != 0 {
		return section{}, errors.New("cannot change networks: the file must be a mapping with a key a line, not one in braces")
	}
	s := section{lines: strings.SplitAfter(string(content), "\n")}
	s.end = len(s.lines)
	root, found := doc.Content[0], false
	for i := 0; i < len(root.Content); i += 2 {
		switch key := root.Content[i]; {
		case found:
			s.end = min(s.end, key.Line-1)
		case key.Value == networksKey:
			s.start, found = key.Line-1, true
		}
	}
	if !found {
		return s.appended(), nil
	}
	for s.end > s.start+1 && between(s.lines[s.end-1]) {
		s.end--
	}
	if last := &s.lines[s.end-1]; !strings.HasSuffix(*last, "\n") {
		*last += "\n"
	}
	return s, nil
}

// between reports whether a line may belong to the text after the section.
func between(line string) bool {
	return strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#")
}

// appended adds an empty section.
func (s section) appended() section {
	for len(s.lines) > 0 && strings.TrimSpace(s.lines[len(s.lines)-1]) == "" {
		s.lines = s.lines[:len(s.lines)-1]
	}
	if n := len(s.lines); n > 0 && !strings.HasSuffix(s.lines[n-1], "\n") {
		s.lines[n-1] += "\n"
	}
	s.start = len(s.lines)
	s.lines = append(s.lines, networksKey+": {}\n")
	s.end = len(s.lines)
	return s
}

// marked is the text with a comment in the blank lines, which then belong to
// the node after them.
func marked(lines []string) string {
	out := make([]string, len(lines))
	indent := ""
	for i := len(lines) - 1; i >= 0; i-- {
		out[i] = lines[i]
		if strings.TrimSpace(lines[i]) == "" {
			out[i] = indent + blank + "\n"
			continue
		}
		indent = lines[i][:len(lines[i])-len(strings.TrimLeft(lines[i], " "))]
	}
	return strings.Join(out, "")
}

// written is the section's text, in lines.
func written(doc *yaml.Node, indent int) ([]string, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(indent)
	if err := e.Encode(doc); err != nil {
		return nil, errors.Wrap(err, "cannot change networks")
	}
	if err := e.Close(); err != nil {
		return nil, errors.Wrap(err, "cannot change networks")
	}
	lines := strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n")
	lines[len(lines)-1] += "\n"
	for i, line := range lines {
		if strings.TrimSpace(line) == blank {
			lines[i] = "\n"
		}
	}
	return lines, nil
}

// same checks that nothing but networks means something else than before.
func same(before, after []byte) error {
	var old, changed map[string]any
	if err := yaml.Unmarshal(before, &old); err != nil {
		return errors.Wrap(err, "cannot change networks")
	}
	if err := yaml.Unmarshal(after, &changed); err != nil {
		return errors.Wrap(err, "cannot change networks: the file would be broken")
	}
	delete(old, networksKey)
	delete(changed, networksKey)
	if len(old) != len(changed) || len(old) > 0 && !reflect.DeepEqual(old, changed) {
		return errors.New("cannot change networks: more of the file would change; write the change by hand")
	}
	return nil
}
