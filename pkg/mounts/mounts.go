// Package mounts reads which file systems are mounted where.
//
// Everybody reads that here. Libraries give up at a line of more than 64 KiB, and a
// container can make one: it renames the folders above what is mounted in its root or in
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
	// Path is where it is mounted, as seen from the root of the process.
	Path string
	// Options are the mount's own, such as "rw,nosuid".
	Options string
	// Shared is whether what is mounted on it is also mounted on its peers.
	Shared bool
	// Type is the file system's, such as "btrfs"; Source what it is made of, such as a device.
	Type, Source string
	// Super are the file system's options.
	Super string
}

// Table is what is mounted, in the kernel's order: what lies on another comes after it.
type Table []Mount

// Read reads what is mounted in the mount namespace of this thread.
func Read() (Table, error) {
	raw, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, errors.Wrap(err, "cannot read what is mounted")
	}
	return Parse(string(raw)), nil
}

// Parse reads lines "36 35 98:0 /root /path rw,noatime shared:1 … - type source options"
// of any length. What is none is left out.
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
	// The kernel escapes a space in a field. A carriage return, which is a space to strings.Fields, it doesn't.
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

// At is the last that was mounted at a path: it covers the others.
func (t Table) At(path string) (m Mount, found bool) {
	for _, candidate := range t {
		if candidate.Path == path {
			m, found = candidate, true
		}
	}
	return m, found
}

// Within are those at a folder and below it.
func (t Table) Within(dir string) Table {
	var out Table
	for _, m := range t {
		if m.Path == dir || strings.HasPrefix(m.Path, strings.TrimSuffix(dir, "/")+"/") {
			out = append(out, m)
		}
	}
	return out
}

// Paths are where they are mounted.
func (t Table) Paths() []string {
	out := make([]string, len(t))
	for i, m := range t {
		out[i] = m.Path
	}
	return out
}

// ByID are they by their IDs.
func (t Table) ByID() map[uint64]Mount {
	out := make(map[uint64]Mount, len(t))
	for _, m := range t {
		out[m.ID] = m
	}
	return out
}
