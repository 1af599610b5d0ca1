// Package diskspace tells how much can be written below a folder. On btrfs the kernel answers for the whole file system, whatever limit the
// folder's subvolume has: the state of a node that has booted from croft's image lies on such a subvolume of its first pool. It only
// reads.
package diskspace

import (
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// Space is how full a place is, in bytes. Free is what can still be written there by others than root.
type Space struct{ Used, Total, Free uint64 }

// Of is the space of a folder: that of its file system, or less where its subvolume has a limit.
func Of(path string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Space{}, errors.Wrapf(err, "cannot look at the space in %s", path)
	}
	size := uint64(st.Bsize)
	s := Space{Used: (st.Blocks - st.Bfree) * size, Total: st.Blocks * size, Free: st.Bavail * size}
	if st.Type != unix.BTRFS_SUPER_MAGIC {
		return s, nil
	}
	limits, err := groups(path)
	if err != nil {
		return Space{}, errors.WithMessagef(err, "cannot look at the space in %s", path)
	}
	for _, g := range limits {
		s = s.within(g)
	}
	return s, nil
}

// within is the space of a place whose quota group has a limit, if it has one that is less.
func (s Space) within(g btrfs.Group) Space {
	if g.Max == 0 || g.Max >= s.Total {
		return s
	}
	left := uint64(0)
	if g.Used < g.Max {
		left = g.Max - g.Used
	}
	return Space{Used: min(g.Used, g.Max), Total: g.Max, Free: min(s.Free, left)}
}

// groups are the quota groups that limit what is written below a folder: that of its subvolume, and with simple quotas the one above it, which
// has the same number (docs/storage.md). Without quotas there are none.
func groups(path string) ([]btrfs.Group, error) {
	f, err := btrfs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	state, err := f.Quota()
	if err != nil || state.Kind == btrfs.NoQuota {
		return nil, err
	}
	id, err := btrfs.Tree(path)
	if err != nil {
		return nil, err
	}
	var out []btrfs.Group
	for _, group := range []uint64{id, btrfs.GroupID(1, id)} {
		g, err := f.ReadGroup(group)
		if errors.Is(err, node.NotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}
