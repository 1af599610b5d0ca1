package project

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/pkg/workload"
)

// secretForms says how a secret is written.
const secretForms = "{secret: env:NAME}, {secret: file:PATH} or {secret: literal:TEXT}"

// Secret is a place in a workload's data that holds a secret. Its text is
// never printed: String and the errors name the source only.
type Secret struct {
	// Path is the field's in the data, as in "secret_env.TOKEN".
	Path string
	// Node is whose key it is sealed to.
	Node string

	source string
	field  string
	line   int
}

// Source opens the places that secrets come from.
type Source struct {
	// Getenv looks a variable up.
	Getenv func(name string) (string, bool)
	// Dir is the folder that relative paths start at: the project file's.
	Dir string
}

// String names the source, not the secret.
func (s *Secret) String() string {
	if strings.HasPrefix(s.source, "literal:") {
		return "literal:…"
	}
	return s.source
}

func readSecret(n *yaml.Node, field string) (*Secret, error) {
	if n.Kind != yaml.MappingNode {
		// The value may be somebody's password: it isn't repeated.
		return nil, at(n.Line, field, "is a secret and must be written as %s", secretForms)
	}
	list, err := entries(n, field)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 || list[0].key != "secret" || list[0].value.Kind != yaml.ScalarNode {
		return nil, at(n.Line, field, "is a secret and must be written as %s", secretForms)
	}
	source := list[0].value.Value
	kind, rest, ok := strings.Cut(source, ":")
	if !ok || rest == "" || (kind != "env" && kind != "file" && kind != "literal") {
		return nil, at(n.Line, field, "is a secret and must be written as %s", secretForms)
	}
	return &Secret{source: source, field: field, line: n.Line}, nil
}

// Open returns the secret's text. One line break at the end of a file isn't part of it.
func (s *Secret) Open(from Source) (string, error) {
	kind, rest, _ := strings.Cut(s.source, ":")
	switch kind {
	case "literal":
		return rest, nil
	case "env":
		value, ok := from.Getenv(rest)
		if !ok || value == "" {
			return "", at(s.line, s.field, "the environment variable %s is empty or not set", rest)
		}
		return value, nil
	}
	return s.openFile(filepath.Join(from.Dir, rest), rest)
}

func (s *Secret) openFile(path, named string) (string, error) {
	if filepath.IsAbs(named) {
		path = named
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", at(s.line, s.field, "the file %s cannot be read: %v", path, rootCause(err))
	}
	if info.Size() > workload.MaxSecret {
		return "", at(s.line, s.field, "the file %s has %d bytes, at most %d are allowed", path, info.Size(), workload.MaxSecret)
	}
	value, err := os.ReadFile(path)
	if err != nil {
		return "", at(s.line, s.field, "the file %s cannot be read: %v", path, rootCause(err))
	}
	out := strings.TrimSuffix(strings.TrimSuffix(string(value), "\n"), "\r")
	if out == "" {
		return "", at(s.line, s.field, "the file %s is empty", path)
	}
	return out, nil
}

func rootCause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
