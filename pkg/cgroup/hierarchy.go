package cgroup

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
)

// hierarchy is one tree of control groups that is mounted: version 2's only
// one, or one of version 1's.
type hierarchy struct {
	// point is the folder where it is mounted.
	point string
	// group is the folder of the group that this process is in.
	group string
	// controllers are version 1's, such as "memory" or "name=systemd"; empty for version 2.
	controllers string
}

// hierarchies are those that this process sees.
func hierarchies() ([]hierarchy, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, errors.Wrap(err, "cannot read this process's control groups")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, errors.Wrap(err, "cannot read where control groups are mounted")
	}
	return parse(string(groups), string(mounts)), nil
}

// parse reads /proc/self/cgroup ("4:memory:/path") and
// /proc/self/mountinfo. What isn't mounted, or lies outside of what is, is left out.
func parse(groups, mounts string) []hierarchy {
	var out []hierarchy
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
		out = append(out, hierarchy{point: point, group: filepath.Join(point, rel), controllers: parts[1]})
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
func (h hierarchy) own(name, managed string) string {
	if h.group == h.point || h.limits() && h.path() != managed {
		return filepath.Join(h.group, name)
	}
	return filepath.Join(filepath.Dir(h.group), name)
}

// path is the group within its hierarchy.
func (h hierarchy) path() string { return strings.TrimPrefix(h.group, h.point) }

// limits reports whether this is a hierarchy of version 1 that only limits.
// Service managers find the processes of a service in the others.
func (h hierarchy) limits() bool {
	return h.controllers != "" && !strings.HasPrefix(h.controllers, "name=")
}
