package fakenode

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
)

// cloned is a copy of a map, never nil.
func cloned[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	maps.Copy(out, m)
	return out
}

// sorted are the keys of a map in order.
func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// drop removes an object. NotExist when there is none.
func drop[V any](m map[string]V, id, what string) error {
	if _, ok := m[id]; !ok {
		return node.Errorf(node.NotExist, "cannot %s %s: there is none", what, id)
	}
	delete(m, id)
	return nil
}

// The forms of texts in specs. They are compiled once: tests of provision make thousands of calls.
var (
	objectName    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)
	networkID     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	memberName    = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$`)
	hostName      = regexp.MustCompile(`^([a-z0-9-]+\.)+[a-z]+$`) // of a peer's endpoint
	containerHost = regexp.MustCompile(`^[A-Za-z0-9.-]{0,253}$`)
	userID        = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)
	imageLabel    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)
	reference     = regexp.MustCompile(`^docker://[a-z0-9.:-]+(/[a-z0-9._-]+)*((:[A-Za-z0-9_.-]+)?|@sha256:[0-9a-f]{64})$`)
)

// goodName reports whether a text may name an object of a module.
func goodName(name string) bool {
	return objectName.MatchString(name)
}

// checkName returns Invalid when an object of a module can't have that name. what
// names the operation, such as "find filesystem".
func checkName(what, name string) error {
	if goodName(name) {
		return nil
	}
	return node.Errorf(node.Invalid, "cannot %s %q: a name must be 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', and not begin with '.' or '-'", what, clip.Text(name, 80))
}

// bytes writes a size in the largest unit of 1024 of which it has at least one,
// rounded down.
func bytes(n uint64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	at := 0
	for ; n >= 1024 && at < 4; at++ {
		n /= 1024
	}
	return strconv.FormatUint(n, 10) + " " + units[at]
}
