package config

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/clip"
)

// fileValue is a value from the file, as text, with its position.
type fileValue struct {
	text   string
	source string
}

// mostFile bounds the configuration file, in bytes.
const mostFile = 1 << 20

// readText reads a configuration file: a regular file of text, of a bounded size.
func readText(name string) ([]byte, error) {
	// Without O_NONBLOCK, opening a FIFO would wait for a writer.
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the configuration")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the configuration")
	}
	if name == os.DevNull {
		return nil, nil // no configuration, said so
	}
	if !info.Mode().IsRegular() {
		return nil, errors.Errorf("cannot read the configuration %s: it is a %s, it must be a regular file", name, kindOf(info.Mode()))
	}
	raw, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	switch {
	case err != nil:
		return nil, errors.Wrapf(err, "cannot read the configuration %s", name)
	case len(raw) > mostFile:
		return nil, errors.Errorf("cannot read the configuration %s: it is larger than 1 MiB, it must be a list of settings", name)
	case !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0:
		return nil, errors.Errorf("cannot read the configuration %s: it isn't text, it must be YAML in UTF-8", name)
	}
	return raw, nil
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// parseFile reads one flat YAML mapping of settings. Lists may be YAML sequences. Unknown and repeated
// keys, and values of another form, are refused with their line; what follows is read all the same.
func parseFile(name string, raw []byte, settings []Setting) (map[string]fileValue, []error) {
	var doc, next yaml.Node
	reader := yaml.NewDecoder(bytes.NewReader(raw))
	switch err := reader.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, []error{errors.Wrapf(err, "cannot read the configuration %s", name)}
	case len(doc.Content) == 0 || doc.Content[0].Tag == "!!null":
		return nil, nil
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, []error{errors.Errorf("cannot read the configuration %s line %d: it must be a mapping of settings", name, top.Line)}
	}
	p := fileParser{name: name, settings: settings, out: map[string]fileValue{}}
	for i := 0; i+1 < len(top.Content); i += 2 {
		if err := p.take(top.Content[i], top.Content[i+1]); err != nil {
			p.faults = append(p.faults, err)
		}
	}
	switch err := reader.Decode(&next); {
	case err == nil:
		p.faults = append(p.faults, errors.Errorf("cannot read the configuration %s line %d: it has a second document, it must be one mapping of settings", name, next.Line))
	case !errors.Is(err, io.EOF):
		p.faults = append(p.faults, errors.Wrapf(err, "cannot read the configuration %s", name))
	}
	return p.out, p.faults
}

// fileParser collects the settings of a file.
type fileParser struct {
	name     string
	settings []Setting
	out      map[string]fileValue
	faults   []error
}

// take reads one setting.
func (p *fileParser) take(key, value *yaml.Node) error {
	where := fmt.Sprintf("%s line %d", p.name, key.Line)
	i := slices.IndexFunc(p.settings, func(s Setting) bool { return s.Name == key.Value })
	if i < 0 {
		return errors.Errorf("cannot use %q (from %s): no such setting%s", clip.Line(key.Value, mostShown), where, nearest(key.Value, p.settings))
	}
	s := p.settings[i]
	if _, twice := p.out[s.Name]; twice {
		return errors.Errorf("cannot use %s (from %s): it is set twice", s.Name, where)
	}
	text, err := nodeText(s, value)
	if err != nil {
		return errors.Errorf("cannot use %s (from %s): it must be %s", s.Name, where, err)
	}
	p.out[s.Name] = fileValue{text: text, source: where}
	return nil
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
	if wanted == "" {
		return ""
	}
	for _, s := range settings {
		if s.Name == wanted || strings.HasPrefix(s.Name, wanted) || strings.HasPrefix(wanted, s.Name) {
			return " (is " + s.Name + " meant?)"
		}
	}
	return ""
}
