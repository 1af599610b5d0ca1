package links

import (
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// Mode is whether a Reconciler changes the namespace.
type Mode int

const (
	// Mend removes them.
	Mend Mode = iota
	// Look only lists them.
	Look
)

// Reconciler brings links, addresses, routes and rates of one namespace to the
// desired state, or lists the differences. It leaves everything else as it is.
type Reconciler struct {
	nl *netlink.Handle
	// path is the namespace's file, empty for the node's own.
	path string
	mode Mode
	diff []string
	// seen is the namespace's state as a Reconciler that only looks has read it.
	seen *snapshot
	// entries are those of the namespace's bridge, by the index of their port, as such a Reconciler has read them.
	entries map[int][]netlink.Neigh
}

// Open opens the namespace of path, the process's own when path is empty.
func Open(path string, mode Mode) (*Reconciler, error) {
	at := vnetns.None()
	if path != "" {
		var err error
		if at, err = vnetns.GetFromPath(path); err != nil {
			return nil, node.Errorf(node.NotExist, "cannot enter network namespace %s: %w", path, err)
		}
		defer at.Close()
	}
	nl, err := netlink.NewHandleAt(at, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot open netlink in %q: %w", path, err)
	}
	return &Reconciler{nl: nl, path: path, mode: mode}, nil
}

// Close closes it.
func (r *Reconciler) Close() { r.nl.Close() }

// Mode is the one that it was opened with.
func (r *Reconciler) Mode() Mode { return r.mode }

// Do runs fn in its namespace.
func (r *Reconciler) Do(fn func() error) error {
	if r.path == "" {
		return fn()
	}
	return netns.Do(r.path, fn)
}

// Differs notes a difference and reports whether it is to be mended.
func (r *Reconciler) Differs(format string, args ...any) bool {
	r.diff = append(r.diff, fmt.Sprintf(format, args...))
	return r.mode == Mend
}

// Note notes differences that another Reconciler has found.
func (r *Reconciler) Note(differences ...string) { r.diff = append(r.diff, differences...) }

// Differences are all that were noted, in order.
func (r *Reconciler) Differences() []string { return r.diff }

// Drift is all differences in one line, empty for none.
func (r *Reconciler) Drift() string { return strings.Join(r.diff, "; ") }
