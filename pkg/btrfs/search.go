package btrfs

import (
	"encoding/binary"
	"math"
)

// searchBuffer is the room for results in struct btrfs_ioctl_search_args.
const searchBuffer = 4096 - 104

// searchArgs is struct btrfs_ioctl_search_args.
type searchArgs struct {
	tree      uint64
	minObject uint64
	maxObject uint64
	minOffset uint64
	maxOffset uint64
	minTrans  uint64
	maxTrans  uint64
	minType   uint32
	maxType   uint32
	items     uint32
	unused    uint32
	unused1   [4]uint64
	buf       [searchBuffer]byte
}

// item is one entry of a tree.
type item struct {
	object uint64
	kind   uint32
	offset uint64
	data   []byte
}

// slice is a range of keys of a tree: all with these types, objects and offsets.
type slice struct {
	tree                 uint64
	minType, maxType     uint32
	minObject, maxObject uint64
	minOffset, maxOffset uint64
}

// search calls visit with every item of s, in order. The kernel walks whole
// keys, so items between the corners are dropped here.
func (f *FS) search(s slice, visit func(item)) error {
	args := searchArgs{
		tree: s.tree, minObject: s.minObject, maxObject: s.maxObject,
		minType: s.minType, maxType: s.maxType, minOffset: s.minOffset, maxOffset: s.maxOffset,
		maxTrans: math.MaxUint64,
	}
	for {
		args.items = math.MaxUint32
		if err := call(f.root, iocTreeSearch, &args); err != nil {
			return err
		}
		last, found := each(&args, func(i item) {
			if i.kind >= s.minType && i.kind <= s.maxType && i.offset >= s.minOffset && i.offset <= s.maxOffset {
				visit(i)
			}
		})
		if !found || !advance(&args, last) {
			return nil
		}
	}
}

// each walks the results in args.
func each(args *searchArgs, visit func(item)) (last item, found bool) {
	const header = 32
	at := 0
	for range args.items {
		if at+header > len(args.buf) {
			break
		}
		h := args.buf[at:]
		size := int(binary.NativeEndian.Uint32(h[28:]))
		last = item{
			object: binary.NativeEndian.Uint64(h[8:]),
			offset: binary.NativeEndian.Uint64(h[16:]),
			kind:   binary.NativeEndian.Uint32(h[24:]),
		}
		at += header
		if at+size > len(args.buf) {
			break
		}
		last.data = args.buf[at : at+size]
		at += size
		found = true
		visit(last)
	}
	return last, found
}

// advance sets the lower corner of args to the key after last.
func advance(args *searchArgs, last item) bool {
	args.minObject, args.minType, args.minOffset = last.object, last.kind, last.offset+1
	if args.minOffset != 0 {
		return true
	}
	args.minType++
	if args.minType <= math.MaxUint8 {
		return true
	}
	args.minType, args.minObject = 0, args.minObject+1
	return args.minObject != 0 && args.minObject <= args.maxObject
}
