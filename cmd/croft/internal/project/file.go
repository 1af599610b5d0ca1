package project

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// maxFile bounds a project file's size in bytes.
const maxFile = 1 << 20

// nameForm is the form of the names of projects and workloads. A letter
// comes first, so that a name is never taken for a reservation's ID.
const nameForm = `^[a-z][a-z0-9-]{0,62}$`

const nameRule = "must be a small letter, then at most 62 small letters, digits and hyphens"

// File is a project file.
type File struct {
	// Path is where it was read from.
	Path     string
	Project  string
	Networks []*Network
	// Workloads come after those they need, and else in the file's order; those
	// of networks come first.
	Workloads []*Workload
}

// Load reads the project file at path.
func Load(path string) (*File, error) {
	content, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, content)
}

// Read returns the content of the file at path, if it isn't too large.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{File: path, Problem: rootCause(err).Error()}
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, &Error{File: path, Problem: rootCause(err).Error()}
	}
	return content, nil
}

// Parse reads a project file's content; path is for the errors.
func Parse(path string, content []byte) (*File, error) {
	out, err := ParseLoose(path, content)
	if err != nil {
		return nil, err
	}
	if err := out.tie(); err != nil {
		return nil, inFile(path, err)
	}
	return out, nil
}

// ParseLoose is Parse without resolving references: workloads may refer to missing ones,
// and are in the file's order.
func ParseLoose(path string, content []byte) (*File, error) {
	out, err := parse(content)
	if err != nil {
		return nil, inFile(path, err)
	}
	out.Path = path
	for _, w := range out.Workloads {
		w.origin.file = path
	}
	return out, nil
}

// inFile adds the file's name to an Error.
func inFile(path string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.File = path
		return e
	}
	return &Error{File: path, Problem: err.Error()}
}

func parse(content []byte) (*File, error) {
	if len(content) > maxFile {
		return nil, at(0, "", "it has more than %d bytes, which are allowed", maxFile)
	}
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, at(0, "", "it is empty; it must have the keys project and workloads")
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, at(more.Line, "", "a second document begins; only one is allowed")
	}
	return readFile(doc.Content[0])
}

// defaults are the file's words that hold for each workload that doesn't say its own.
type defaults struct {
	node     string
	duration time.Duration
}

func readFile(root *yaml.Node) (*File, error) {
	list, err := entries(root, "")
	if err != nil {
		return nil, err
	}
	out, common := &File{}, defaults{}
	var networks, workloads *entry
	for _, e := range list {
		switch e.key {
		case "project":
			out.Project, err = name(e.value, "project")
		case "node":
			common.node, err = nodeID(e.value, "node")
		case "duration":
			common.duration, err = duration(e.value, "duration")
		case "networks":
			networks = &e
		case "workloads":
			workloads = &e
		default:
			err = unknown(e, "", []string{"project", "node", "duration", "networks", "workloads"})
		}
		if err != nil {
			return nil, err
		}
	}
	if out.Project == "" {
		return nil, at(root.Line, "project", "is missing; it %s", nameRule)
	}
	if workloads == nil && networks == nil {
		return nil, at(root.Line, "workloads", "is missing; it must be a mapping of names to workloads")
	}
	if networks != nil {
		if out.Networks, err = readNetworks(networks.value, common); err != nil {
			return nil, err
		}
	}
	if workloads != nil {
		if out.Workloads, err = readWorkloads(workloads.value, common); err != nil {
			return nil, err
		}
	}
	return out, out.arrange()
}

func readWorkloads(n *yaml.Node, common defaults) ([]*Workload, error) {
	list, err := entries(n, "workloads")
	if err != nil {
		return nil, err
	}
	out := make([]*Workload, len(list))
	for i, e := range list {
		field := join("workloads", e.key)
		if !nameOK(e.key) {
			return nil, at(e.line, field, "%q isn't a name; it %s", e.key, nameRule)
		}
		if out[i], err = readWorkload(e, field, common); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// arrange makes workloads of the networks, which come first.
func (f *File) arrange() error {
	if err := apart(f.Networks, f.Workloads); err != nil {
		return err
	}
	var all []*Workload
	for _, n := range f.Networks {
		all = append(all, n.workloads()...)
	}
	f.Workloads = append(all, f.Workloads...)
	return nil
}

// tie resolves the references between workloads, and orders them by these.
func (f *File) tie() error {
	if err := f.connect(f.Workloads); err != nil {
		return err
	}
	if err := addresses(f.Workloads); err != nil {
		return err
	}
	var err error
	f.Workloads, err = ordered(f.Workloads)
	return err
}

// Find returns the workload of that name, nil when there is none.
func (f *File) Find(name string) *Workload {
	for _, w := range f.Workloads {
		if w.Name == name {
			return w
		}
	}
	return nil
}

func nameOK(s string) bool { return regexp.MustCompile(nameForm).MatchString(s) }

// CheckName checks the name of a network, a workload or an access.
func CheckName(s string) error {
	if !nameOK(s) {
		return errors.Errorf("%q isn't a name; it %s", s, nameRule)
	}
	return nil
}

func name(n *yaml.Node, field string) (string, error) {
	value, err := text(n, field)
	if err == nil && !nameOK(value) {
		err = at(n.Line, field, "is %s, %s", described(n), nameRule)
	}
	return value, err
}

func nodeID(n *yaml.Node, field string) (string, error) {
	value, err := text(n, field)
	if err != nil {
		return "", err
	}
	if _, err := sign.VerifyingKey(value); err != nil {
		return "", at(n.Line, field, "is %s, must be a node's ID, the base58 of 32 bytes", described(n))
	}
	return value, nil
}

func duration(n *yaml.Node, field string) (time.Duration, error) {
	value, err := text(n, field)
	if err != nil {
		return 0, at(n.Line, field, "is %s, must be as in 30d, 2w, 1d12h, 90m, 45s", described(n))
	}
	d, err := lifetime.Parse(value)
	if err != nil {
		return 0, at(n.Line, field, "is %s, must be more than 0, as in 30d, 2w, 1d12h, 90m, 45s", described(n))
	}
	return d, nil
}

// typeNames are the keys that say a workload's type.
func typeNames() []string {
	var out []string
	for _, t := range workload.Types() {
		out = append(out, string(t))
	}
	return out
}
