package hooks

import (
	"bytes"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/pkg/clip"
)

// Limits of a hook's file.
const (
	mostFile      = 64 << 10
	mostMatches   = 64
	mostArguments = 256
	mostShown     = 128
)

// Parse reads a hook from the text of a file; name is the hook's. Errors name the line, the field, and what is
// allowed.
func Parse(name string, raw []byte) (Hook, error) {
	p := parser{hook: Hook{Name: name, Timeout: DefaultTimeout, Queue: DefaultQueue}}
	if len(raw) > mostFile {
		return Hook{}, errors.Errorf("cannot read hook %s: it has more than %d bytes", name, mostFile)
	}
	var doc, next yaml.Node
	reader := yaml.NewDecoder(bytes.NewReader(raw))
	if err := reader.Decode(&doc); errors.Is(err, io.EOF) {
		return Hook{}, errors.Errorf("cannot read hook %s: it is empty, it must have on and run", name)
	} else if err != nil {
		return Hook{}, errors.Errorf("cannot read hook %s: it isn't YAML: %s", name, clip.Line(err.Error(), mostShown))
	}
	if err := reader.Decode(&next); !errors.Is(err, io.EOF) {
		return Hook{}, errors.Errorf("cannot read hook %s: it must be one document", name)
	}
	err := fields(doc.Content[0], "a hook", map[string]func(*yaml.Node) error{"on": p.on, "run": p.run, "timeout": p.timeout, "queue": p.queue})
	switch {
	case err != nil:
	case len(p.hook.Argv) == 0:
		err = errors.New("run is missing, it must be a list of a program's absolute path and its arguments")
	case p.hook.Schedule == nil && len(p.hook.Events) == 0:
		err = errors.New("on is missing, it must have cron, events or both")
	}
	return p.hook, errors.Wrapf(err, "cannot read hook %s", name)
}

// parser fills a hook from its fields.
type parser struct{ hook Hook }

// at is an error with its line.
func at(n *yaml.Node, format string, args ...any) error {
	return errors.Errorf("line %d: "+format, append([]any{n.Line}, args...)...)
}

// fields calls the reader of each field of a mapping.
func fields(n *yaml.Node, what string, readers map[string]func(*yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return at(n, "%s must be a mapping", what)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		read, known := readers[key.Value]
		switch {
		case !known || key.Kind != yaml.ScalarNode:
			return at(key, "%s has no field %q", what, clip.Line(key.Value, mostShown))
		case seen[key.Value]:
			return at(key, "%s is there twice", key.Value)
		}
		seen[key.Value] = true
		if err := read(n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func text(n *yaml.Node, field string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", at(n, "%s must be a text", field)
	}
	return n.Value, nil
}

func (p *parser) on(n *yaml.Node) error {
	return fields(n, "on", map[string]func(*yaml.Node) error{"cron": p.cron, "events": p.events})
}

func (p *parser) cron(n *yaml.Node) error {
	expression, err := text(n, "cron")
	if err != nil {
		return err
	}
	if p.hook.Schedule, err = ParseCron(expression); err != nil {
		return errors.Wrapf(err, "line %d", n.Line)
	}
	return nil
}

func (p *parser) events(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > mostMatches {
		return at(n, "events must be a list of 1 to %d matches of type, reason and object", mostMatches)
	}
	for _, item := range n.Content {
		var m Match
		err := fields(item, "a match of events", map[string]func(*yaml.Node) error{"type": m.kind, "reason": m.reason, "object": m.object})
		if err != nil {
			return err
		}
		if m == (Match{}) {
			return at(item, "a match of events must have type, reason or object")
		}
		p.hook.Events = append(p.hook.Events, m)
	}
	return nil
}

func (m *Match) kind(n *yaml.Node) error {
	kind, err := text(n, "type")
	if err == nil && Kind(kind) != Normal && Kind(kind) != Warning {
		err = at(n, "type is %q, it must be Normal or Warning", clip.Line(kind, mostShown))
	}
	m.Kind = Kind(kind)
	return err
}

// reasonForm matches reasons: UpperCamelCase.
var reasonForm = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,63}$`)

func (m *Match) reason(n *yaml.Node) (err error) {
	if m.Reason, err = text(n, "reason"); err == nil && !reasonForm.MatchString(m.Reason) {
		err = at(n, "reason is %q, it must be one word such as Drifted", clip.Line(m.Reason, mostShown))
	}
	return err
}

func (m *Match) object(n *yaml.Node) error {
	pattern, err := text(n, "object")
	if err != nil {
		return err
	}
	m.Type, m.ID, _ = strings.Cut(pattern, "/")
	for _, each := range []string{m.Type, m.ID} {
		if _, err := path.Match(each, ""); err != nil || len(pattern) > mostShown || m.Type == "" {
			return at(n, "object is %q, it must be TYPE or TYPE/ID, where * is any text, such as container/*", clip.Line(pattern, mostShown))
		}
	}
	return nil
}

func (p *parser) run(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > mostArguments {
		return at(n, "run must be a list of a program's absolute path and at most %d arguments", mostArguments-1)
	}
	for _, item := range n.Content {
		argument, err := text(item, "each item of run")
		if err != nil {
			return err
		}
		if strings.ContainsRune(argument, 0) {
			return at(item, "an item of run has a zero byte")
		}
		p.hook.Argv = append(p.hook.Argv, argument)
	}
	if !filepath.IsAbs(p.hook.Argv[0]) {
		return at(n, "run begins with %q, it must be a program's absolute path", clip.Line(p.hook.Argv[0], mostShown))
	}
	return nil
}

func (p *parser) timeout(n *yaml.Node) error {
	value, err := text(n, "timeout")
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 || d > mostTimeout {
		return at(n, "timeout is %q, it must be a duration above 0 and up to 24h, such as 30s", clip.Line(value, mostShown))
	}
	p.hook.Timeout = d
	return nil
}

// nameForm matches names of hooks and of queues.
var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

const nameAllowed = "lower case letters, digits, dots and dashes, at most 64"

func (p *parser) queue(n *yaml.Node) error {
	value, err := text(n, "queue")
	if err == nil && !nameForm.MatchString(value) {
		err = at(n, "queue is %q, it must be %s", clip.Line(value, mostShown), nameAllowed)
	}
	p.hook.Queue = value
	return err
}
