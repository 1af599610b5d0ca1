package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"
)

// Group is one control group: its folder in each hierarchy. The folders need not
// be there.
type Group struct{ places []place }

// place is the folder of a group in a hierarchy.
type place struct {
	Hierarchy
	dir string
}

// Beside is the group of that name beside this process's groups, in all
// hierarchies: its processes don't end with this process's service.
func Beside(name string) (Group, error) {
	all, err := Hierarchies()
	return BesideIn(all, name), err
}

// BesideIn is Beside for callers that have read the hierarchies.
func BesideIn(all []Hierarchy, name string) Group {
	var g Group
	where := managed(all)
	for _, h := range all {
		g.places = append(g.places, place{h, h.beside(name, where)})
	}
	return g
}

// At is the group at a path below the mount point of each hierarchy with a controller
// of Limits, as runc makes groups.
func At(path string) (Group, error) {
	all, err := Hierarchies()
	return AtIn(all, path), err
}

// AtIn is At for callers that have read the hierarchies.
func AtIn(all []Hierarchy, path string) Group {
	var g Group
	for _, h := range all {
		if h.has("memory") || h.has("pids") || h.has("io") || h.has("cpu") {
			g.places = append(g.places, place{h, filepath.Join(h.Point, path)})
		}
	}
	return g
}

// Of are the folders that a process is in, where they have that name.
func Of(pid int, name string) Group {
	all, err := hierarchiesOf(strconv.Itoa(pid))
	if err != nil {
		return Group{}
	}
	var g Group
	for _, h := range all {
		if filepath.Base(h.Group) == name {
			g.places = append(g.places, place{h, h.Group})
		}
	}
	return g
}

// Folders are the folders, one a hierarchy.
func (g Group) Folders() []string {
	out := make([]string, 0, len(g.places))
	for _, p := range g.places {
		out = append(out, p.dir)
	}
	return out
}

// Make makes the folders, and enables its limits in those above.
func (g Group) Make() error {
	for _, p := range g.places {
		if err := p.make(); err != nil {
			return errors.Wrapf(err, "cannot make a control group for %q", p.controllers)
		}
	}
	return nil
}

func (p place) make() error {
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	if p.version() == 2 {
		for _, above := range p.above() {
			Enable(above, "memory", "pids", "io", "cpu")
		}
	}
	if hasAll(p.controllers, "cpuset") {
		inherit(p.dir, "cpuset.cpus", "cpuset.mems")
	}
	return nil
}

// above are the folders from the hierarchy's mount point to the group's parent.
func (p place) above() []string {
	rel, err := filepath.Rel(p.Point, filepath.Dir(p.dir))
	if err != nil || strings.HasPrefix(rel, "..") {
		return nil
	}
	out := []string{p.Point}
	for name := range strings.SplitSeq(rel, "/") {
		if name != "." {
			out = append(out, filepath.Join(out[len(out)-1], name))
		}
	}
	return out
}

// Limit limits the group, which was made. Missing are the names of limits that
// this machine can't enforce.
func (g Group) Limit(l Limits) (missing []string) {
	for _, one := range l.all() {
		holds := false
		for _, p := range g.places {
			if p.has(one.controller) {
				holds = Hold(p.dir, one.ways(p.version())) || holds
			}
		}
		if !holds {
			missing = append(missing, one.name)
		}
	}
	return missing
}

// Limits are those of the given limits that are in force now; 0 for others.
func (g Group) Limits(of Limits) Limits {
	var out Limits
	for _, one := range of.all() {
		for _, p := range g.places {
			if !p.has(one.controller) {
				continue
			}
			n := one.reading(p.version(), p.dir)
			switch one.name {
			case "memory":
				out.Memory = n
			case "pids":
				out.PIDs = n
			case "io weight":
				out.IOWeight = n
			case "cpu weight":
				out.CPUWeight = n
			case "cpus":
				out.CPUs = n
			}
		}
	}
	return out
}

// Enter makes the group and moves a process into it, in as many hierarchies as possible.
func (g Group) Enter(pid int) (failures []error) {
	for _, p := range g.places {
		err := p.make()
		if err == nil {
			err = p.enter(pid)
		}
		if err != nil {
			failures = append(failures, errors.Wrapf(err, "cannot use a control group of its own for %q", p.controllers))
		}
	}
	return failures
}

func (p place) enter(pid int) error {
	return write(filepath.Join(p.dir, "cgroup.procs"), strconv.Itoa(pid))
}

// Put moves a process to the group of that name beside this process's, and limits
// that. Failures are all failed steps, but for limits that this machine doesn't
// have: their names are in missing.
func Put(pid int, name string, l Limits) (missing []string, failures []error) {
	g, err := Beside(name)
	if err != nil {
		return nil, []error{err}
	}
	failures = g.Enter(pid)
	return g.Limit(l), failures
}

// PIDs are the processes whose memory the group limits, not those in groups below it.
func (g Group) PIDs() []int {
	for _, p := range g.places {
		if p.has("memory") {
			return processes(p.dir)
		}
	}
	return nil
}

// processes are those in a folder; 0 stands for one of another PID namespace.
func processes(dir string) (out []int) {
	raw, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for _, line := range strings.Fields(string(raw)) {
		if pid, err := strconv.Atoi(line); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// Remove removes the folders without processes.
func (g Group) Remove() {
	for _, p := range g.places {
		_ = os.Remove(p.dir) // one in use stays
	}
}

// inherit copies the settings that a new group of version 1 doesn't get from its
// parent, and without which no process may enter.
func inherit(group string, files ...string) {
	for _, name := range files {
		now, err := os.ReadFile(filepath.Join(group, name))
		if err != nil || strings.TrimSpace(string(now)) != "" {
			continue
		}
		if parent, err := os.ReadFile(filepath.Join(filepath.Dir(group), name)); err == nil {
			_ = write(filepath.Join(group, name), strings.TrimSpace(string(parent)))
		}
	}
}
