package config

import (
	"fmt"
	"strings"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
)

// fileValue is a value from the file, as text, with its position.
type fileValue struct {
	text   string
	source string
}

// parseFile reads one flat YAML mapping of settings. Lists may be YAML
// sequences. Unknown and repeated keys are refused with their line.
func parseFile(name string, raw []byte, settings []Setting) (map[string]fileValue, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, errors.Wrapf(err, "cannot read the configuration %s", name)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, errors.Errorf("cannot read the configuration %s line %d: it must be a mapping of settings", name, top.Line)
	}
	known := map[string]Setting{}
	for _, s := range settings {
		known[s.Name] = s
	}
	out := map[string]fileValue{}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		where := fmt.Sprintf("%s line %d", name, key.Line)
		s, ok := known[key.Value]
		if !ok {
			return nil, errors.Errorf("cannot use %q (from %s): no such setting%s", key.Value, where, nearest(key.Value, settings))
		}
		if _, twice := out[s.Name]; twice {
			return nil, errors.Errorf("cannot use %s (from %s): it is set twice", s.Name, where)
		}
		text, err := nodeText(s, value)
		if err != nil {
			return nil, errors.Errorf("cannot use %s (from %s): it must be %s", s.Name, where, err)
		}
		out[s.Name] = fileValue{text: text, source: where}
	}
	return out, nil
}

func nodeText(s Setting, n *yaml.Node) (string, error) {
	if n.Kind == yaml.ScalarNode {
		if n.Tag == "!!null" {
			return "", nil
		}
		return n.Value, nil
	}
	if s.Kind != List || n.Kind != yaml.SequenceNode {
		return "", errors.Errorf("a %s", s.Kind)
	}
	items := make([]string, 0, len(n.Content))
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode || strings.Contains(item.Value, ",") {
			return "", errors.New("a list of plain values without commas")
		}
		items = append(items, item.Value)
	}
	return strings.Join(items, ","), nil
}

// nearest suggests a setting with a similar beginning.
func nearest(name string, settings []Setting) string {
	wanted := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	for _, s := range settings {
		if s.Name == wanted || strings.HasPrefix(s.Name, wanted) || strings.HasPrefix(wanted, s.Name) {
			return " (is " + s.Name + " meant?)"
		}
	}
	return ""
}
