package storage

import (
	stderrors "errors"
	"maps"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// familyLevel is the level of the quota group that a simple quota limits. With
// simple quotas a subvolume made inside another joins the groups above it, so
// who nests subvolumes in a volume, which needs no privilege, stays below the
// volume's limit. With qgroups there is no such rule and the limit is on the
// subvolume's own group.
const familyLevel = 1

// ensureQuota turns on quotas and returns the kind in force. A pool keeps the
// kind it has. One with file systems on it that lost its quotas gets qgroups,
// which count what is there already.
func ensureQuota(f *btrfs.FS, want QuotaKind, occupied bool) (btrfs.Quota, error) {
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

func enableQuota(f *btrfs.FS, want QuotaKind, occupied bool) error {
	if want == QgroupQuota || want == AnyQuota && occupied {
		return f.EnableQuota(btrfs.Qgroup)
	}
	err := f.EnableQuota(btrfs.Simple)
	unknown := stderrors.Is(err, unix.EINVAL) || stderrors.Is(err, unix.ENOTTY) || stderrors.Is(err, unix.EOPNOTSUPP)
	if want == AnyQuota && unknown {
		return f.EnableQuota(btrfs.Qgroup)
	}
	return err
}

// group is the quota group that limits the subvolume of that ID.
func (p *pool) group(id uint64) uint64 {
	if p.quota == btrfs.Simple {
		return btrfs.GroupID(familyLevel, id)
	}
	return id
}

// limit gives the subvolume of that ID its size.
func (p *pool) limit(f *btrfs.FS, id, size uint64) error {
	group := p.group(id)
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

// unlimit takes the limit away: a full group can't even be destroyed.
func (p *pool) unlimit(f *btrfs.FS, id uint64) error {
	err := f.Limit(p.group(id), math.MaxUint64)
	if stderrors.Is(err, node.NotExist) {
		return nil
	}
	return err
}

// used is how many bytes are in the subvolume of that ID, and those nested in it.
func (p *pool) used(f *btrfs.FS, id uint64) (uint64, error) {
	g, err := f.ReadGroup(p.group(id))
	return g.Used, err
}

// ensureLimits gives each file system the limit its label says, if it has another.
func (p *pool) ensureLimits(f *btrfs.FS, volumes map[string]label) error {
	groups, err := f.Groups()
	if err != nil {
		return err
	}
	for name, l := range volumes {
		id, err := btrfs.SubvolumeID(p.place(filesystems(), name))
		if err != nil {
			return err
		}
		if g := groups[p.group(id)]; g != nil && g.Max == l.Size {
			continue
		}
		if err := p.limit(f, id, l.Size); err != nil {
			return err
		}
	}
	return nil
}

// sweepAll removes, on each pool that works, the groups of what was removed since the last sweep. Between
// a few of them others have their turn.
func (m *Module) sweepAll() {
	for _, p := range m.pools {
		for next, more := uint64(0), true; more; {
			done, err := m.begin()
			if err != nil {
				return
			}
			next, more = p.sweep(next)
			done()
		}
	}
}

// sweep removes some groups of a pool that works, from that ID on. It says whether there are more, and from where on.
func (p *pool) sweep(from uint64) (next uint64, more bool) {
	f, err := p.open()
	if err != nil {
		return 0, false // Status says so
	}
	defer f.Close()
	next, more, err = p.sweepGroups(f, from)
	if err != nil {
		p.log.Warn().Err(err).Str("pool", p.name).Msg("quota groups of what is gone can't be removed")
	}
	return next, more
}

// sweepAtOnce is how many groups at most the kernel is asked to remove while others wait for the module.
const sweepAtOnce = 64

// sweepGroups removes quota groups of subvolumes that are gone and that the kernel's cleaner has done with, some
// of them, from that ID on. Only sweeps do it, not each removal: a removal has no time to wait for the
// cleaner, which takes up to a commit interval, and each question in vain joins the transaction of the whole pool.
func (p *pool) sweepGroups(f *btrfs.FS, from uint64) (next uint64, more bool, err error) {
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
		case asked == sweepAtOnce:
			return id, true, nil
		}
		asked++
		_ = f.RemoveGroup(id) // whatever is wrong with a group of nothing harms nobody
	}
	return 0, false, nil
}
