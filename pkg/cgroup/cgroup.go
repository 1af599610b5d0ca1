package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"
)

// Enter moves a process to control groups of that name, and limits their
// memory, in bytes, unless it is 0. It goes as far as it may: failures are what
// wasn't possible.
func Enter(pid int, name string, memory uint64) (failures []error) {
	all, err := hierarchies()
	if err != nil {
		return []error{err}
	}
	limited := memory == 0
	groups := own(all, name)
	for i, h := range all {
		if err := h.enter(groups[i], pid); err != nil {
			failures = append(failures, errors.Wrapf(err, "cannot use a control group of its own for %q", h.controllers))
			continue
		}
		limited = memory != 0 && h.limit(groups[i], memory) || limited
	}
	if !limited {
		failures = append(failures, errors.New("cannot limit the memory: there is no control group for it"))
	}
	return failures
}

// Of are the folders of the groups of that name that a process is in.
func Of(pid int, name string) []string {
	groups, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var out []string
	for _, h := range parse(string(groups), string(mounts)) {
		if filepath.Base(h.group) == name {
			out = append(out, h.group)
		}
	}
	return out
}

// Remove removes the groups of that name that nobody is in: those beside this
// process's, and those of folders, which Of gave while there was a process.
func Remove(name string, folders ...string) {
	if all, err := hierarchies(); err == nil {
		folders = append(folders, own(all, name)...)
	}
	for _, f := range folders {
		_ = os.Remove(f) // one in use stays
	}
}

// own are the folders of the groups of that name, one a hierarchy.
func own(all []hierarchy, name string) []string {
	managed := ""
	for _, h := range all {
		if !h.limits() && len(h.path()) > len(managed) {
			managed = h.path()
		}
	}
	out := make([]string, 0, len(all))
	for _, h := range all {
		out = append(out, h.own(name, managed))
	}
	return out
}

func (h hierarchy) enter(group string, pid int) error {
	if err := os.MkdirAll(group, 0o755); err != nil {
		return err
	}
	if hasAll(h.controllers, "cpuset") {
		inherit(group, "cpuset.cpus", "cpuset.mems")
	}
	return write(filepath.Join(group, "cgroup.procs"), strconv.Itoa(pid))
}

// limit limits the memory of a group, where this hierarchy is the one that does.
func (h hierarchy) limit(group string, memory uint64) bool {
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
