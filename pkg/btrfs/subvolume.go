package btrfs

import (
	"encoding/binary"
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// CreateSubvolume makes an empty subvolume in dir. Exist when the name is taken.
func CreateSubvolume(dir, name string) error {
	f, err := os.Open(dir)
	if err != nil {
		return Wrap(err, "cannot create subvolume %s/%s", dir, name)
	}
	defer f.Close()
	return createIn(f, name)
}

func createIn(dir *os.File, name string) error {
	var args volArgs
	if len(name) == 0 || len(name) >= len(args.name) {
		return node.Errorf(node.Invalid, "cannot create subvolume in %s: its name has %d bytes, must have 1 to %d", dir.Name(), len(name), len(args.name)-1)
	}
	copy(args.name[:], name)
	return Wrap(call(dir, iocSubvolCreateV2, &args), "cannot create subvolume %s/%s", dir.Name(), name)
}

// SubvolumeID is the ID of the subvolume whose root path is. Invalid when path
// isn't the root of one.
func SubvolumeID(path string) (uint64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, Wrap(err, "cannot find subvolume %s", path)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, Wrap(err, "cannot find subvolume %s", path)
	}
	if stat, ok := unixStat(info); !ok || stat.Ino != firstFree {
		return 0, node.Errorf(node.Invalid, "cannot find subvolume %s: it is a plain folder", path)
	}
	args := lookupArgs{object: firstFree}
	if err := call(f, iocInoLookup, &args); err != nil {
		return 0, Wrap(err, "cannot find subvolume %s", path)
	}
	return args.tree, nil
}

// Destroy removes the subvolume of that ID with all in it, those nested in it
// first: a user who may write to a subvolume may make others inside. NotExist
// when there is none.
func (f *FS) Destroy(id uint64) error {
	// A process that still has it open may nest new ones meanwhile.
	for range 3 {
		children, err := f.Children(id)
		if err != nil {
			return err
		}
		for _, child := range children {
			if err := f.Destroy(child); err != nil && !errors.Is(err, node.NotExist) {
				return err
			}
		}
		err = f.destroyOne(id)
		if !errors.Is(err, unix.ENOTEMPTY) {
			return Wrap(err, "cannot destroy subvolume %d of %s", id, f.root.Name())
		}
	}
	return node.Errorf(node.Busy, "cannot destroy subvolume %d of %s: others appear in it", id, f.root.Name())
}

func (f *FS) destroyOne(id uint64) error {
	args := volArgs{flags: specByID}
	binary.NativeEndian.PutUint64(args.name[:], id)
	return call(f.root, iocSnapDestroyV2, &args)
}

// Children are the IDs of the subvolumes directly inside the one of that ID.
func (f *FS) Children(id uint64) ([]uint64, error) {
	var children []uint64
	err := f.search(slice{
		tree: rootTree, minType: keyRootRef, maxType: keyRootRef,
		minObject: id, maxObject: id, minOffset: firstFree, maxOffset: lastFree,
	}, func(i item) { children = append(children, i.offset) })
	return children, Wrap(err, "cannot list the subvolumes nested in subvolume %d of %s", id, f.root.Name())
}

// Subvolumes are the IDs of all subvolumes that are there, dead ones that wait
// for the cleaner too.
func (f *FS) Subvolumes() (map[uint64]bool, error) {
	ids := map[uint64]bool{}
	err := f.search(slice{
		tree: rootTree, minType: keyRootItem, maxType: keyRootItem,
		minObject: firstFree, maxObject: lastFree, maxOffset: lastFree,
	}, func(i item) { ids[i.object] = true })
	return ids, Wrap(err, "cannot list the subvolumes of %s", f.root.Name())
}

// Tree is the ID of the subvolume that a folder lies in.
func Tree(path string) (uint64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return 0, Wrap(err, "cannot find the subvolume of %s", path)
	}
	defer f.Close()
	// Of tree 0 the kernel looks up the tree that the folder lies in.
	args := lookupArgs{object: firstFree}
	if err := call(f, iocInoLookup, &args); err != nil {
		return 0, Wrap(err, "cannot find the subvolume of %s", path)
	}
	return args.tree, nil
}
