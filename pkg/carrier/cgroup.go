package carrier

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"
)

// Hierarchy is one tree of control groups that is mounted: version 2's only
// one, or one of version 1's.
type Hierarchy struct {
	// Point is the folder where it is mounted.
	Point string
	// Group is the folder of the group that this process is in.
	Group string
	// controllers are version 1's, such as "memory" or "name=systemd"; empty for version 2.
	controllers string
}

// Hierarchies are those that this process sees.
func Hierarchies() ([]Hierarchy, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, errors.Wrap(err, "cannot read this process's control groups")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, errors.Wrap(err, "cannot read where control groups are mounted")
	}
	return parseHierarchies(string(groups), string(mounts)), nil
}

// parseHierarchies reads /proc/self/cgroup ("4:memory:/path") and
// /proc/self/mountinfo. What isn't mounted, or lies outside of what is, is left out.
func parseHierarchies(groups, mounts string) []Hierarchy {
	var out []Hierarchy
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		point, root := mountOf(mounts, parts[1])
		rel, err := filepath.Rel(root, parts[2])
		if point == "" || err != nil || strings.HasPrefix(rel, "..") {
			continue
		}
		out = append(out, Hierarchy{Point: point, Group: filepath.Join(point, rel), controllers: parts[1]})
	}
	return out
}

// mountOf is where a hierarchy is mounted, and which of its groups is there.
func mountOf(mounts, controllers string) (point, root string) {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(kind) < 3 {
			continue
		}
		switch {
		case controllers == "" && kind[0] == "cgroup2":
			return fields[4], fields[3]
		case controllers != "" && kind[0] == "cgroup" && hasAll(kind[2], controllers):
			return fields[4], fields[3]
		}
	}
	return "", ""
}

func hasAll(options, controllers string) bool {
	there := "," + options + ","
	for c := range strings.SplitSeq(controllers, ",") {
		if !strings.Contains(there, ","+c+",") {
			return false
		}
	}
	return true
}

// own is the folder of the group of that name beside the one of this process:
// who ends the agent's group doesn't end that one. Beside the root is below it.
//
// A controller's group that a service manager didn't make, because it isn't
// where the manager has the agent, is somebody's limit: it isn't escaped.
func (h Hierarchy) own(name, managed string) string {
	if h.Group == h.Point || h.Limits() && h.path() != managed {
		return filepath.Join(h.Group, name)
	}
	return filepath.Join(filepath.Dir(h.Group), name)
}

// path is the group within its hierarchy.
func (h Hierarchy) path() string { return strings.TrimPrefix(h.Group, h.Point) }

// Limits reports whether this is a hierarchy of version 1 that only limits.
// Service managers find the processes of a service in the others.
func (h Hierarchy) Limits() bool {
	return h.controllers != "" && !strings.HasPrefix(h.controllers, "name=")
}

// OwnGroups are the folders of the groups of that name, one a hierarchy.
func OwnGroups(all []Hierarchy, name string) []string {
	managed := ""
	for _, h := range all {
		if !h.Limits() && len(h.path()) > len(managed) {
			managed = h.path()
		}
	}
	out := make([]string, 0, len(all))
	for _, h := range all {
		out = append(out, h.own(name, managed))
	}
	return out
}

// LeaveGroup moves this process to control groups of its own, and limits its
// memory there. It goes as far as it may: failures are what wasn't possible.
func LeaveGroup(name string, memory uint64) (failures []error) {
	return MoveTo(os.Getpid(), name, memory)
}

// MoveTo is LeaveGroup for another process: one that isn't a program of ours
// and can't do it itself. Memory of 0 isn't limited.
func MoveTo(pid int, name string, memory uint64) (failures []error) {
	all, err := Hierarchies()
	if err != nil {
		return []error{err}
	}
	limited := memory == 0
	groups := OwnGroups(all, name)
	for i, h := range all {
		group := groups[i]
		if err := h.enter(group, pid); err != nil {
			failures = append(failures, errors.Wrapf(err, "cannot use a control group of its own for %q", h.controllers))
			continue
		}
		limited = memory != 0 && h.limit(group, memory) || limited
	}
	if !limited {
		failures = append(failures, errors.New("cannot limit the memory: there is no control group for it"))
	}
	return failures
}

func (h Hierarchy) enter(group string, pid int) error {
	if err := os.MkdirAll(group, 0o755); err != nil {
		return err
	}
	if hasAll(h.controllers, "cpuset") {
		inherit(group, "cpuset.cpus", "cpuset.mems")
	}
	return write(filepath.Join(group, "cgroup.procs"), strconv.Itoa(pid))
}

// limit limits the memory of a group, where this hierarchy is the one that does.
func (h Hierarchy) limit(group string, memory uint64) bool {
	file := "memory.max"
	switch {
	case h.controllers == "":
		// Where it isn't allowed there is no such file, and no limit.
		_ = write(filepath.Join(filepath.Dir(group), "cgroup.subtree_control"), "+memory")
	case hasAll(h.controllers, "memory"):
		file = "memory.limit_in_bytes"
	default:
		return false
	}
	return write(filepath.Join(group, file), strconv.FormatUint(memory, 10)) == nil
}

// inherit copies what a new group of version 1 doesn't get from its parent,
// and without which no process may enter.
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

// RemoveGroups removes the empty groups that a carrier of that process left.
func RemoveGroups(groups []string) {
	for _, g := range groups {
		_ = os.Remove(g) // one in use stays
	}
}

// GroupsOf are the folders of the groups of that name that a process is in.
func GroupsOf(pid int, name string) []string {
	groups, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var out []string
	for _, h := range parseHierarchies(string(groups), string(mounts)) {
		if filepath.Base(h.Group) == name {
			out = append(out, h.Group)
		}
	}
	return out
}

// write writes a control file: it is there already, or the kernel has no such control.
func write(path, value string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(value)
	return err
}
