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

// goodName reports whether a text may name an object of a module.
func goodName(name string) bool {
	ok, err := regexp.MatchString(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`, name)
	return ok && err == nil
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
