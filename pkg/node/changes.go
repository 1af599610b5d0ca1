package node

import (
	"context"
	"time"
)

// The address on the bus of a module's stream of changes, in each module that has one:
// network, container, storage, zdbd and vmd.
const (
	ChangesObject  = "changes"
	ChangesVersion = "0.1.0"
)

const (
	// ChangesEvery is the longest pause between two values of a stream of changes.
	ChangesEvery = 2 * time.Second
	// ChangesMost is how many IDs one value has at most.
	ChangesMost = 1024
)

// Change is one value of a stream of changes.
type Change struct {
	// Stream names the stream: one that has begun anew has another name. Number counts
	// its values, without gaps: a reader that finds a gap has lost a value.
	Stream uint64
	Number uint64
	// IDs are those of the reservations whose objects on the node have changed since the
	// value before, each once, sorted; none when the value is only a sign of life.
	IDs []string
	// Lost says that objects may have changed that no value names: the reader has to look
	// at everything. It is set in a stream's first value.
	Lost bool
}

// Changes tells whose objects on the node have changed, whoever changed them: somebody
// under the node, or the module itself. Bus: changes@0.1.0 of the module.
//
// An ID is a hint to look, never a statement about what is there. The stream names owners
// by their reservations' IDs only; objects without an owner aren't told.
//
// Told are, within a second: in network, links, addresses, routes, queueing disciplines and
// nftables rules in the networks' and their members' namespaces and of the networks' links in
// the node's, and the end of a namespace's mount; in container, tasks and containers in containerd, and the
// mounts of their namespaces and root file systems; in storage, file systems and virtual
// disks that appear or disappear, and pools that are unmounted; in zdbd, the end of a zdb;
// in vmd, the end of a QEMU.
//
// Not told, because the kernel tells nobody: the peers and keys of WireGuard devices, the
// sizes of quotas, sysctls, labels, the content of files, names in a network's DNS,
// and the namespaces inside a zdb. A reader looks at these from time to time. Nor is the end
// of a zdb's listener alone: the module opens another one.
type Changes interface {
	// Changes sends the first value at once, then on change, and at least every ChangesEvery.
	// Changes that come fast share a value. A reader that is too slow for the number of
	// IDs gets Lost instead of them.
	Changes(ctx context.Context) <-chan Change
}
