package btrfs

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Numbers of linux/btrfs.h. The direction bits are those of every platform
// but MIPS, PowerPC and SPARC.
const (
	magic = 0x94

	dirWrite = 1 << 30
	dirRead  = 2 << 30

	iocSync           = magic<<8 | 8
	iocTreeSearch     = dirRead | dirWrite | 4096<<16 | magic<<8 | 17
	iocInoLookup      = dirRead | dirWrite | 4096<<16 | magic<<8 | 18
	iocSpaceInfo      = dirRead | dirWrite | 16<<16 | magic<<8 | 20
	iocSubvolCreateV2 = dirWrite | 4096<<16 | magic<<8 | 24
	iocFSInfo         = dirRead | 1024<<16 | magic<<8 | 31
	iocQuotaCtl       = dirRead | dirWrite | 16<<16 | magic<<8 | 40
	iocQgroupAssign   = dirWrite | 24<<16 | magic<<8 | 41
	iocQgroupCreate   = dirWrite | 16<<16 | magic<<8 | 42
	iocQgroupLimit    = dirRead | 48<<16 | magic<<8 | 43
	iocQuotaRescan    = dirWrite | 64<<16 | magic<<8 | 44
	iocSnapDestroyV2  = dirWrite | 4096<<16 | magic<<8 | 63
)

// Objects and keys of linux/btrfs_tree.h.
const (
	rootTree  = 1
	quotaTree = 8

	// firstFree is the inode of every subvolume's root, and the least ID of one.
	firstFree = 256
	lastFree  = ^uint64(0) - 255

	keyRootItem       = 132
	keyRootRef        = 156
	keyQgroupStatus   = 240
	keyQgroupInfo     = 242
	keyQgroupLimit    = 244
	keyQgroupRelation = 246
)

// specByID makes SNAP_DESTROY_V2 take an ID in place of a name.
const specByID = 1 << 4

// nameMax is the room for a name in volArgs, with its final zero.
const nameMax = 4040

// volArgs is struct btrfs_ioctl_vol_args_v2.
type volArgs struct {
	fd      int64
	transid uint64
	flags   uint64
	unused  [4]uint64
	// name holds a name, or an ID in its first 8 bytes.
	name [nameMax]byte
}

// lookupArgs is struct btrfs_ioctl_ino_lookup_args.
type lookupArgs struct {
	tree   uint64
	object uint64
	name   [4080]byte
}

// quotaArgs is struct btrfs_ioctl_quota_ctl_args.
type quotaArgs struct {
	cmd    uint64
	status uint64
}

// assignArgs is struct btrfs_ioctl_qgroup_assign_args.
type assignArgs struct {
	assign uint64
	src    uint64
	dst    uint64
}

// groupArgs is struct btrfs_ioctl_qgroup_create_args.
type groupArgs struct {
	create uint64
	id     uint64
}

// limitArgs is struct btrfs_ioctl_qgroup_limit_args.
type limitArgs struct {
	id      uint64
	flags   uint64
	maxRfer uint64
	maxExcl uint64
	rsvRfer uint64
	rsvExcl uint64
}

// infoArgs is struct btrfs_ioctl_fs_info_args.
type infoArgs struct {
	maxID   uint64
	devices uint64
	uuid    [16]byte
	rest    [992]byte
}

// spaceArgs is struct btrfs_ioctl_space_args with room for the groups that one
// file system can have.
type spaceArgs struct {
	slots uint64
	total uint64
	infos [32]spaceInfo
}

// spaceInfo is struct btrfs_ioctl_space_info.
type spaceInfo struct {
	flags uint64
	total uint64
	used  uint64
}

// rescanArgs is struct btrfs_ioctl_quota_rescan_args.
type rescanArgs struct {
	flags    uint64
	progress uint64
	reserved [6]uint64
}

// call makes an ioctl on f, again when a signal came in between.
func call[T any](f *os.File, number uintptr, args *T) error {
	defer runtime.KeepAlive(f)
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), number, uintptr(unsafe.Pointer(args)))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
			continue
		default:
			return errno
		}
	}
}
