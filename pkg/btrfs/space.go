package btrfs

import "golang.org/x/sys/unix"

// Flags of linux/btrfs_tree.h: the content of a group of blocks, and its profile.
const (
	groupData     = 1 << 0
	groupMetadata = 1 << 2
	groupTwice    = 1<<4 | 1<<5 | 1<<6 // RAID1, DUP, RAID10
)

// Space is the state of a file system in bytes.
type Space struct {
	Total uint64
	Used  uint64
	// ReadOnly means that the kernel has made it read-only, as after a write error.
	ReadOnly bool
	Layout   Layout
}

// Layout is how a file system divides its device.
type Layout struct {
	// Mixed means that data and metadata lie in the same groups of blocks. Where
	// they don't, room that was once given to the one isn't there for the other.
	Mixed bool
	// Copies is how often metadata is written; quotas count it once.
	Copies uint64
}

// Space reads it.
func (f *FS) Space() (Space, error) {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(f.root.Fd()), &stat); err != nil {
		return Space{}, Wrap(err, "cannot read the space of %s", f.root.Name())
	}
	layout, err := f.layout()
	block := uint64(stat.Bsize)
	return Space{
		Total:    stat.Blocks * block,
		Used:     (stat.Blocks - stat.Bfree) * block,
		ReadOnly: stat.Flags&unix.ST_RDONLY != 0,
		Layout:   layout,
	}, err
}

// layout reads how the file system divides its device. While that is being
// changed, metadata counts by the dearer of the two.
func (f *FS) layout() (Layout, error) {
	args := spaceArgs{}
	args.slots = uint64(len(args.infos))
	if err := call(f.root, iocSpaceInfo, &args); err != nil {
		return Layout{}, Wrap(err, "cannot read the layout of %s", f.root.Name())
	}
	out := Layout{Mixed: true, Copies: 1}
	for _, info := range args.infos[:min(args.total, args.slots)] {
		if info.flags&groupMetadata == 0 {
			continue
		}
		out.Mixed = out.Mixed && info.flags&groupData != 0
		if info.flags&groupTwice != 0 {
			out.Copies = 2
		}
	}
	return out, nil
}
