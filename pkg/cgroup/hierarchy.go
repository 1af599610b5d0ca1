package cgroup

import (
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/mounts"
)

// Hierarchy is one mounted tree of control groups: version 2's only one, or one of
// version 1's.
type Hierarchy struct {
	// Point is its mount point.
	Point string
	// Group is the folder of a process's group, see Hierarchies.
	Group string
	// controllers are version 1's, such as "memory" or "name=systemd"; empty for version 2.
	controllers string
}

// Hierarchies are those that this process sees, with its groups.
func Hierarchies() ([]Hierarchy, error) { return hierarchiesOf("self") }

func hierarchiesOf(process string) ([]Hierarchy, error) {
	groups, err := os.ReadFile("/proc/" + process + "/cgroup")
	if err != nil {
		return nil, errors.Wrap(err, "cannot read a process's control groups")
	}
	mounted, err := mounts.Read()
	if err != nil {
		return nil, err
	}
	return parseHierarchies(string(groups), mounted), nil
}

// parseHierarchies reads /proc/self/cgroup ("4:memory:/path"). It skips hierarchies that
// aren't mounted, and groups outside of the mounted part.
func parseHierarchies(groups string, mounted mounts.Table) []Hierarchy {
	var out []Hierarchy
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		point, root := mountOf(mounted, parts[1])
		rel, err := filepath.Rel(root, parts[2])
		if point == "" || err != nil || strings.HasPrefix(rel, "..") {
			continue
		}
		out = append(out, Hierarchy{Point: point, Group: filepath.Join(point, rel), controllers: parts[1]})
	}
	return out
}

// mountOf is a hierarchy's mount point, and the group mounted there.
func mountOf(mounted mounts.Table, controllers string) (point, root string) {
	for _, m := range mounted {
		switch {
		case controllers == "" && m.Type == "cgroup2":
			return m.Path, m.Root
		case controllers != "" && m.Type == "cgroup" && hasAll(m.Super, controllers):
			return m.Path, m.Root
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

// version is 1 or 2.
func (h Hierarchy) version() int {
	if h.controllers == "" {
		return 2
	}
	return 1
}

// has reports whether a controller, by its name in version 2, is in this hierarchy.
func (h Hierarchy) has(controller string) bool {
	if h.version() == 2 {
		there, _ := os.ReadFile(filepath.Join(h.Point, "cgroup.controllers"))
		return slices.Contains(strings.Fields(string(there)), controller)
	}
	if controller == "io" {
		controller = "blkio"
	}
	return hasAll(h.controllers, controller)
}

// Limits reports whether this is a hierarchy of version 1 that only limits.
// Service managers find the processes of a service in the others.
func (h Hierarchy) Limits() bool {
	return h.controllers != "" && !strings.HasPrefix(h.controllers, "name=")
}

// path is the group within its hierarchy.
func (h Hierarchy) path() string { return strings.TrimPrefix(h.Group, h.Point) }

// Name is the group's name for a part of the node whose folder is dir: several
// nodes may be on one machine.
func Name(part, dir string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(dir))
	return "croft-" + part + "-" + strconv.FormatUint(uint64(h.Sum32()), 16)
}

// nameForm is the form of Name's results.
var nameForm = regexp.MustCompile(`^croft-[a-z]+-[0-9a-f]{1,8}$`)

// beside is the folder of the group of that name beside the process's group: ending
// the agent's group doesn't end that one. Beside the root is below it, and beside a
// group that croft has made is next to that one.
//
// A controller's group that isn't where the service manager has the agent wasn't made
// by the manager: it is somebody's limit, and isn't escaped.
func (h Hierarchy) beside(name, managed string) string {
	own := nameForm.MatchString(filepath.Base(h.Group))
	if !own && (h.Group == h.Point || h.Limits() && h.path() != managed) {
		return filepath.Join(h.Group, name)
	}
	return filepath.Join(filepath.Dir(h.Group), name)
}

// managed is the process's group as its service manager set it, empty for the root.
func managed(all []Hierarchy) string {
	out := ""
	for _, h := range all {
		if !h.Limits() && len(h.path()) > len(out) {
			out = h.path()
		}
	}
	return out
}
