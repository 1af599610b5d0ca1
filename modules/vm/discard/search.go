package discard

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/pkg/errors"
)

// The commands of linux/btrfs.h on every platform but MIPS, PowerPC and SPARC: BTRFS_IOC_TREE_SEARCH_V2, …_WAIT_SYNC, …_START_SYNC.
const (
	iocTreeSearchV2 = 3<<30 | 112<<16 | 0x94<<8 | 17
	iocWaitSync     = 1<<30 | 8<<16 | 0x94<<8 | 22
	iocStartSync    = 2<<30 | 8<<16 | 0x94<<8 | 24
)

// The layouts and numbers of linux/btrfs_tree.h.
const (
	keyExtentData = 108
	headerSize    = 32
	itemSize      = 53
	inlineExtent  = 0
	// foundBytes is the room for items, some 770 of them.
	foundBytes = 64 << 10
)

// searchArgs is struct btrfs_ioctl_search_args_v2 with its buffer.
type searchArgs struct {
	tree                 uint64
	minObject, maxObject uint64
	minOffset, maxOffset uint64
	minTrans, maxTrans   uint64
	minType, maxType     uint32
	items                uint32
	_                    uint32
	_                    [4]uint64
	size                 uint64
	found                [foundBytes]byte
}

// search finds the file extent items of an inode in the subvolume of an open file, with keys from a position in the file up to the last byte
// of s. It appends to out those of the first ones that are in the buffer which are extents of their own on the disk, as they are,
// neither compressed nor in the tree. next is where the search goes on, and is s.to when nothing is left.
func (a *searchArgs) search(fd int, inode uint64, s span, out []extent) (found []extent, next uint64, err error) {
	a.tree, a.minObject, a.maxObject = 0, inode, inode // tree 0 is the file's own
	a.minOffset, a.maxOffset, a.minTrans, a.maxTrans = s.from, s.to-1, 0, math.MaxUint64
	a.minType, a.maxType, a.items, a.size = keyExtentData, keyExtentData, math.MaxUint32, foundBytes
	if err := control(fd, iocTreeSearchV2, unsafe.Pointer(a)); err != nil {
		return out, s.to, errors.Wrap(err, "cannot look for the extents of a disk")
	}
	next = s.to
	rest := a.found[:]
	for range a.items {
		if len(rest) < headerSize {
			break
		}
		key, size := binary.NativeEndian.Uint64(rest[16:]), int(binary.NativeEndian.Uint32(rest[28:]))
		rest = rest[headerSize:]
		if size > len(rest) {
			break
		}
		if e, ok := extentOf(key, rest[:size]); ok {
			out = append(out, e)
		}
		rest, next = rest[size:], key+1
	}
	return out, next, nil
}

// extentOf decodes an item with that position in the file. Holes, and extents whose space on the disk isn't their content's, are
// none.
func extentOf(at uint64, item []byte) (extent, bool) {
	if len(item) < itemSize {
		return extent{}, false
	}
	// Compression, encryption and another encoding: none.
	if item[16] != 0 || item[17] != 0 || binary.LittleEndian.Uint16(item[18:]) != 0 || item[20] == inlineExtent {
		return extent{}, false
	}
	address, e := binary.LittleEndian.Uint64(item[21:]), extent{
		at: at, length: binary.LittleEndian.Uint64(item[45:]),
		offset: binary.LittleEndian.Uint64(item[37:]), whole: binary.LittleEndian.Uint64(item[29:]),
	}
	return e, address != 0
}
