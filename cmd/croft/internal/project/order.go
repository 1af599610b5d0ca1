package project

import (
	"strings"

	"github.com/croft-edge/croft/pkg/workload"
)

// connect checks the references between workloads. Where they name a
// network of the file, they mean its workloads.
func (f *File) connect(all []*Workload) error {
	byName := map[string]*Workload{}
	for _, w := range all {
		byName[w.Name] = w
	}
	for _, w := range all {
		for _, r := range w.body.refs {
			if err := f.meant(w, r); err != nil {
				return err
			}
			if err := w.connectRef(r, byName[r.name]); err != nil {
				return err
			}
		}
		var after []waits
		for _, a := range w.after {
			for _, name := range f.Parts(a.name) {
				after = append(after, waits{name: name, line: a.line})
				if byName[name] == nil {
					return at(a.line, join(w.origin.field, "after"), "there is no workload %q in this file", a.name)
				}
			}
		}
		w.after = after
	}
	return nil
}

// meant makes r name the workload that its network is on w's node.
func (f *File) meant(w *Workload, r *ref) error {
	n := f.FindNetwork(r.name)
	if n == nil || r.kind != networkKind {
		return nil
	}
	if n.Find(w.Node) == nil {
		return at(r.line, r.field, "network %q has no part on node %s, where %q is; `croft network add-node %s %s` adds one", n.Name, w.Node, w.Name, n.Name, w.Node)
	}
	r.name = PartName(n.Name, w.Node)
	return nil
}

func (w *Workload) connectRef(r *ref, target *Workload) error {
	want, other := workload.TypeVolume, "volume_id: N-M"
	if r.kind == networkKind {
		want, other = workload.TypeNetwork, "network_id: NAME"
	}
	if target == nil {
		return at(r.line, r.field, "there is no workload %q in this file; for one outside of it write %s", r.name, other)
	}
	if target.Type != want {
		return at(r.line, r.field, "%q is a %s, must be a %s", r.name, target.Type, want)
	}
	if target.Node != w.Node {
		return at(r.line, r.field, "%q is on node %s, must be on the same node as %q, %s", r.name, target.Node, w.Name, w.Node)
	}
	if !addHash(w.body.data, r, target.Name) {
		return at(r.line, r.field, "is a workload of this file, whose hash croft writes itself; volume_hash and network_hash are for those outside of it")
	}
	if r.kind == networkKind {
		// A network is referred to by its own name, which is known already.
		replaceRef(w.body.data, r, target.Network)
	}
	w.uses = append(w.uses, target.Name)
	return nil
}

// replaceRef puts value in the place of r.
func replaceRef(tree any, r *ref, value string) {
	switch t := tree.(type) {
	case map[string]any:
		for k, v := range t {
			if v == any(r) {
				t[k] = value
			} else {
				replaceRef(v, r, value)
			}
		}
	case []any:
		for _, v := range t {
			replaceRef(v, r, value)
		}
	}
}

// needs are those that must come first, with the line that says so.
func (w *Workload) needs() []waits {
	out := append([]waits(nil), w.after...)
	for _, r := range w.body.refs {
		out = append(out, waits{name: r.name, line: r.line})
	}
	return out
}

// ordered puts each workload behind those that it needs.
func ordered(all []*Workload) ([]*Workload, error) {
	byName, done, out := map[string]*Workload{}, map[string]bool{}, make([]*Workload, 0, len(all))
	for _, w := range all {
		byName[w.Name] = w
	}
	var visit func(w *Workload, path []string) error
	visit = func(w *Workload, path []string) error {
		path = append(path, w.Name)
		for _, n := range w.needs() {
			if i := index(path, n.name); i >= 0 {
				return at(n.line, w.origin.field, "workloads wait for each other: %s", strings.Join(append(path[i:], n.name), " → "))
			}
			if done[n.name] {
				continue
			}
			if err := visit(byName[n.name], path); err != nil {
				return err
			}
		}
		done[w.Name] = true
		out = append(out, w)
		return nil
	}
	for _, w := range all {
		if done[w.Name] {
			continue
		}
		if err := visit(w, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func index(list []string, s string) int {
	for i, one := range list {
		if one == s {
			return i
		}
	}
	return -1
}
