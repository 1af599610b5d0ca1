package project

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/pkg/workload"
)

// Workload is a workload as the project file asks for it.
type Workload struct {
	Name     string
	Type     workload.Type
	Node     string
	Duration time.Duration
	// Network is the network's own name, where Type is network.
	Network string

	// uses are the workloads whose ID or name the data holds, after those that are
	// only waited for.
	uses   []string
	after  []waits
	body   *body
	origin origin
}

// origin is the position of a workload: the path of the project file, the line, and the
// path in the file's tree.
type origin struct {
	file  string
	line  int
	field string
}

// waits is an entry of the key "after".
type waits struct {
	name string
	line int
}

// Uses names the workloads that this one's data refers to.
func (w *Workload) Uses() []string { return append([]string(nil), w.uses...) }

// Image is a container's image reference, and the credentials for its registry; nil when
// there are none.
func (w *Workload) Image() (reference string, auth *Secret) {
	if w.Type != workload.TypeContainer {
		return "", nil
	}
	reference, _ = w.body.data["flist"].(string)
	auth, _ = w.body.data["image_auth"].(*Secret)
	return reference, auth
}

// Secrets are the places of the data that hold secrets.
func (w *Workload) Secrets() []*Secret { return append([]*Secret(nil), w.body.secrets...) }

func readWorkload(e entry, field string, common defaults) (*Workload, error) {
	list, err := entries(e.value, field)
	if err != nil {
		return nil, err
	}
	w := &Workload{Name: e.key, Node: common.node, Duration: common.duration, body: &body{}, origin: origin{line: e.line, field: field}}
	for _, one := range list {
		where := join(field, one.key)
		switch {
		case one.key == "node":
			w.Node, err = nodeID(one.value, where)
		case one.key == "duration":
			w.Duration, err = duration(one.value, where)
		case one.key == "after":
			w.after, err = readAfter(one.value, where)
		case !workload.Type(one.key).Known():
			err = unknown(one, field, append(typeNames(), "node", "duration", "after"))
		case w.Type != "":
			err = at(one.line, where, "it is a %s already; only one type is allowed", w.Type)
		default:
			w.Type = workload.Type(one.key)
			err = w.readData(one.value, where)
		}
		if err != nil {
			return nil, err
		}
	}
	return w, w.complete(field)
}

func (w *Workload) readData(n *yaml.Node, field string) error {
	b := &body{places: map[string]place{}}
	data, err := b.value(n, shapeOf(w.Type), field, "")
	if err != nil {
		return err
	}
	b.data = data.(map[string]any)
	w.body = b
	return nil
}

// complete fills in derived members, and checks that nothing is missing.
func (w *Workload) complete(field string) error {
	if w.Type == "" {
		return at(w.origin.line, field, "has no type; one is needed of %s", strings.Join(typeNames(), ", "))
	}
	if w.Node == "" {
		return at(w.origin.line, join(field, "node"), "is missing, and the file has none for all; it must be a node's ID")
	}
	if w.Duration == 0 {
		return at(w.origin.line, join(field, "duration"), "is missing, and the file has none for all; it must be as in 30d")
	}
	if w.Type == workload.TypeNetwork {
		if _, ok := w.body.data["name"]; !ok {
			w.body.data["name"] = w.Name
		}
		w.Network = w.body.data["name"].(string)
	}
	w.body.addressSecrets(w.Node)
	return nil
}

func readAfter(n *yaml.Node, field string) ([]waits, error) {
	list, err := items(n, field)
	if err != nil {
		return nil, err
	}
	out := make([]waits, len(list))
	for i, item := range list {
		value, err := text(item, field)
		if err != nil {
			return nil, err
		}
		out[i] = waits{name: value, line: item.Line}
	}
	return out, nil
}
