package volume

import (
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// Quota is the kind of quota that is wanted.
type Quota string

// The kinds of quota. Simple quotas need Linux 6.7; qgroups work everywhere.
const (
	// Any takes simple quotas where the kernel has them, else qgroups.
	Any    Quota = ""
	Simple Quota = "simple"
	Qgroup Quota = "qgroup"
)

// FamilyLevel is the level of the quota group that a simple quota limits. With
// simple quotas a subvolume made inside another joins the groups above it, so
// a user who nests subvolumes in a volume, which needs no privilege, stays below the
// volume's limit. With qgroups there is no such rule and the limit is on the
// subvolume's own group.
const FamilyLevel = 1

// ensureQuota turns on quotas and returns the kind in force. A pool keeps the
// kind it has. One with file systems on it that lost its quotas gets qgroups,
// which count existing data.
func ensureQuota(f *btrfs.FS, want Quota, occupied bool) (btrfs.Quota, error) {
	state, err := f.Quota()
	if err != nil {
		return "", err
	}
	if state.Kind == btrfs.NoQuota {
		if err := enableQuota(f, want, occupied); err != nil {
			return "", err
		}
		if state, err = f.Quota(); err != nil {
			return "", err
		}
	}
	if state.Kind == btrfs.Qgroup && state.Inconsistent && !state.Rescanning {
		err = f.Rescan()
	}
	return state.Kind, err
}

func enableQuota(f *btrfs.FS, want Quota, occupied bool) error {
	if want == Qgroup || want == Any && occupied {
		return f.EnableQuota(btrfs.Qgroup)
	}
	err := f.EnableQuota(btrfs.Simple)
	unknown := errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP)
	if want == Any && unknown {
		return f.EnableQuota(btrfs.Qgroup)
	}
	return err
}

// limits are quota groups of one kind, which limit the subvolumes of a pool. The kind is another one once somebody has turned the
// pool's quotas off.
type limits struct{ now atomic.Pointer[btrfs.Quota] }

// kind is the kind in force; NoQuota before Prepare.
func (l *limits) kind() btrfs.Quota {
	if kind := l.now.Load(); kind != nil {
		return *kind
	}
	return btrfs.NoQuota
}

// turnOn turns on the quotas of the pool if they are off; see ensureQuota.
func (l *limits) turnOn(f *btrfs.FS, want Quota, occupied bool) error {
	kind, err := ensureQuota(f, want, occupied)
	if err == nil {
		l.now.Store(&kind)
	}
	return err
}

// group is the quota group that limits the subvolume of that ID.
func (l *limits) group(id uint64) uint64 {
	if l.kind() == btrfs.Simple {
		return btrfs.GroupID(FamilyLevel, id)
	}
	return id
}

// set gives the subvolume of that ID its size.
func (l *limits) set(f *btrfs.FS, id, size uint64) error {
	group := l.group(id)
	if group != id {
		if err := f.CreateGroup(group); err != nil {
			return err
		}
		if err := f.Join(id, group); err != nil {
			return err
		}
	}
	return f.Limit(group, size)
}

// lift takes the limit away: a full group can't even be destroyed.
func (l *limits) lift(f *btrfs.FS, id uint64) error {
	err := f.Limit(l.group(id), math.MaxUint64)
	if errors.Is(err, node.NotExist) {
		return nil
	}
	return err
}

// used is how many bytes are in the subvolume of that ID, and those nested in it.
func (l *limits) used(f *btrfs.FS, id uint64) (uint64, error) {
	g, err := f.ReadGroup(l.group(id))
	return g.Used, err
}

// SweepAtOnce is how many groups at most the kernel is asked to remove while others wait for the module.
const SweepAtOnce = 64

// Sweep removes quota groups of subvolumes that are gone and that the kernel's cleaner has done with, some
// of them, from that ID on. Only sweeps do it, not each removal: a removal has no time to wait for the
// cleaner, which takes up to a commit interval, and each question in vain joins the transaction of the whole pool.
func Sweep(f *btrfs.FS, from uint64) (next uint64, more bool, err error) {
	groups, err := f.Groups()
	if err != nil {
		return 0, false, err
	}
	there, err := f.Subvolumes()
	if err != nil {
		return 0, false, err
	}
	asked := 0
	// The lower levels first: a group that another one is in can't be removed.
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		number := btrfs.GroupNumber(id)
		switch {
		case id < from || number < 256 || there[number]:
			continue
		case asked == SweepAtOnce:
			return id, true, nil
		}
		asked++
		_ = f.RemoveGroup(id) // a group without a subvolume harms nobody
	}
	return 0, false, nil
}
