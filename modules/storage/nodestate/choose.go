package nodestate

import (
	"slices"
	"strings"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/pkg/node"
)

// Want is what the operator allows.
type Want struct {
	// UUID is that of the pool with the node's state, where several disks have one; empty where one has.
	UUID string
	// Make is whether a first pool may be made, where no disk has a node's state.
	Make bool
	// Wipe are paths of disks that may be erased although something is on them.
	Wipe []string
}

// Choose returns the index of the disk that has the node's state, or is to get it. It refuses rather than make another node of a
// machine whose state may only be out of reach.
func Choose(found []Found, want Want) (int, error) {
	var states []int
	for i, f := range found {
		if f.Kind == State && (want.UUID == "" || want.UUID == f.UUID) {
			states = append(states, i)
		}
	}
	switch {
	case len(states) == 1:
		return states[0], nil
	case len(states) > 1:
		return -1, node.Errorf(node.Refused, "cannot tell which is this node's state: %s have one: name the pool's UUID with --state, or unplug the other", list(found, State))
	case want.UUID != "":
		return -1, node.Errorf(node.Transient, "cannot find the node's state: no disk has the pool with UUID %s; %s", want.UUID, have(found))
	case !want.Make:
		return -1, node.Errorf(node.NotExist, "cannot find the node's state: no disk has it; %s", have(found))
	}
	if unknown := list(found, Unknown, Copy); unknown != "" {
		return -1, node.Errorf(node.Transient, "cannot make the node's first pool: it isn't known whether the node's state is on a disk: %s; repair it, or name it no more", unknown)
	}
	if pools := list(found, Pool); pools != "" {
		return -1, node.Errorf(node.Refused, "cannot make the node's first pool: %s held by a node whose state isn't there: plug in the disk with its state, or name these disks no more", pools)
	}
	for _, may := range []func(f Found) bool{
		func(f Found) bool { return f.Kind == Unfinished }, // or else a crash would leave one more of them
		func(f Found) bool { return f.Kind == Empty || f.Kind == Other && slices.Contains(want.Wipe, f.Disk) },
	} {
		if i := slices.IndexFunc(found, may); i >= 0 {
			return i, nil
		}
	}
	return -1, node.Errorf(node.Refused, "cannot make the node's first pool: no disk is empty; %s; name one with --wipe-disk to erase it", have(found))
}

// list names the disks of these kinds.
func list(found []Found, kinds ...Kind) string {
	var out []string
	for _, f := range found {
		if slices.Contains(kinds, f.Kind) {
			out = append(out, f.describe())
		}
	}
	return strings.Join(out, " and ")
}

// have says what all disks have.
func have(found []Found) string {
	if len(found) == 0 {
		return "there is no disk"
	}
	out := make([]string, len(found))
	for i, f := range found {
		out[i] = f.describe()
	}
	return "there are " + strings.Join(out, ", ")
}

func (f Found) describe() string {
	text := f.Disk + " (" + f.What
	if f.UUID != "" {
		text += ", UUID " + f.UUID
	}
	if f.Kind == State {
		text += ", with a node's state"
	}
	return text + ")"
}

// The size of a state volume. It holds the containers' images beside the node's records, which are a few MiB.
const (
	// part of the pool: images are shared by workloads, whose own data is much more.
	part = 4
	// least is room for the images of a few workloads: those of a language's runtime have 1 GiB.
	least = 2 * bytesize.GiB
	// most is where more would hardly be used: dozens of large images.
	most = 64 * bytesize.GiB
	// small divides a pool that is too small for that: half is left to promise.
	small = 2
	// Least is the least size at all; bytes. The node's records and logs need it.
	Least = 64 * bytesize.MiB
)

// Size is the size of the state volume of a pool of that size, by default; bytes.
func Size(pool uint64) uint64 {
	size := min(max(pool/part, least), most, pool/small)
	return size / bytesize.MiB * bytesize.MiB
}
