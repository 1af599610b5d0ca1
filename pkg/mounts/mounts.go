// Package mounts reads the mount table.
//
// All of croft reads it here. Libraries give up at a line of more than 64 KiB, and a
// container can make one: it renames the folders above a mount point in its root or in
// a volume. Nobody else's work may fail for that.
package mounts

import (
	"os"
	"strconv"
	"strings"

	"github.com/pkg/errors"
)

// Mount is a line of /proc/thread-self/mountinfo, see proc_pid_mountinfo(5).
type Mount struct {
	// ID is unique while it is mounted. Parent is the mount that it lies on.
	ID, Parent uint64
	// Root is the folder of its file system that it shows.
	Root string
	// Path is the mount point, as seen from the root of the process.
	Path string
	// Options are the mount's own, such as "rw,nosuid".
	Options string
	// Shared is whether mounts on it propagate to its peers.
	Shared bool
	// Type is the file system's, such as "btrfs"; Source its origin, such as a device.
	Type, Source string
	// Super are the file system's options.
	Super string
}

// Table is the mounts in the kernel's order: a mount on another comes after it.
type Table []Mount

// Read reads the mount table of this thread's mount namespace.
func Read() (Table, error) {
	raw, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the list of mounts")
	}
	return Parse(string(raw)), nil
}

// ReadWithin is Read of the mounts at a folder and below it. It costs less where there are
// many others.
func ReadWithin(dir string) (Table, error) {
	raw, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the list of mounts")
	}
	return parseWithin(string(raw), dir), nil
}

func parseWithin(text, dir string) Table {
	if escapes.Replace(dir) != dir || strings.ContainsAny(dir, " \t\n#") {
		return Parse(text).Within(dir) // the kernel writes it in another way
	}
	var t Table
	for line := range strings.Lines(text) {
		if !strings.Contains(line, dir) {
			continue
		}
		if m, ok := parse(strings.TrimSuffix(line, "\n")); ok {
			t = append(t, m)
		}
	}
	return t.Within(dir)
}

// Parse reads lines "36 35 98:0 /root /path rw,noatime shared:1 … - type source options"
// of any length, and skips other lines.
func Parse(text string) Table {
	var t Table
	for line := range strings.Lines(text) {
		if m, ok := parse(strings.TrimSuffix(line, "\n")); ok {
			t = append(t, m)
		}
	}
	return t
}

func parse(line string) (Mount, bool) {
	left, right, found := strings.Cut(line, " - ")
	// The kernel escapes spaces in a field, but no carriage return, which is a space to strings.Fields.
	own, fs := strings.Split(left, " "), strings.Split(right, " ")
	if !found || len(own) < 6 || len(fs) < 3 {
		return Mount{}, false
	}
	id, err := strconv.ParseUint(own[0], 10, 64)
	if err != nil {
		return Mount{}, false
	}
	parent, err := strconv.ParseUint(own[1], 10, 64)
	if err != nil {
		return Mount{}, false
	}
	m := Mount{ID: id, Parent: parent, Root: unescape(own[3]), Path: unescape(own[4]), Options: own[5], Type: fs[0], Source: unescape(fs[1]), Super: fs[2]}
	for _, tag := range own[6:] {
		m.Shared = m.Shared || strings.HasPrefix(tag, "shared:")
	}
	return m, true
}

var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#")

func unescape(field string) string { return escapes.Replace(field) }

// At is the last mount at a path: it covers the others.
func (t Table) At(path string) (m Mount, found bool) {
	for _, candidate := range t {
		if candidate.Path == path {
			m, found = candidate, true
		}
	}
	return m, found
}

// Within are the mounts at a folder and below it.
func (t Table) Within(dir string) Table {
	var out Table
	for _, m := range t {
		if m.Path == dir || strings.HasPrefix(m.Path, strings.TrimSuffix(dir, "/")+"/") {
			out = append(out, m)
		}
	}
	return out
}

// Paths are the mount points.
func (t Table) Paths() []string {
	out := make([]string, len(t))
	for i, m := range t {
		out[i] = m.Path
	}
	return out
}

// ByID returns the mounts by their IDs.
func (t Table) ByID() map[uint64]Mount {
	out := make(map[uint64]Mount, len(t))
	for _, m := range t {
		out[m.ID] = m
	}
	return out
}
