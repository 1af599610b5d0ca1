// Package nodestate finds the pool that has the state of the node itself, and decides whether one may be made: another one would make
// another node of the machine. It only looks, and writes nothing to any disk.
package nodestate

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/storage/blockdev"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// Kind is what a disk holds.
type Kind string

// Kinds.
const (
	// Empty: nothing is on it, or what mkfs.btrfs hadn't finished for a pool.
	Empty Kind = "empty"
	// Unfinished: a pool that was formatted to get the node's state, on which nothing is.
	Unfinished Kind = "unfinished"
	// State: the pool with a node's state.
	State Kind = "state"
	// Pool: a pool without a node's state.
	Pool Kind = "pool"
	// Other: something that croft hasn't made.
	Other Kind = "other"
	// Unknown: it isn't there, can't be read, or holds a damaged pool, which may have a node's state.
	Unknown Kind = "unknown"
	// Copy: the same file system as another disk, of which it isn't known which is which.
	Copy Kind = "copy"
)

// Found is what a disk holds.
type Found struct {
	// Disk is its path as the operator wrote it, Device the kernel's.
	Disk, Device string
	Kind         Kind
	// Pool and UUID are those of the pool on it.
	Pool, UUID string
	// What names what is on it, or why that isn't known.
	What string
	// Passing tells that another look may find something else, though the disk hasn't changed: a part of it couldn't be read.
	Passing bool
}

// atOnce is how many disks are looked at at a time. An empty hard disk takes seconds: hundreds of places on it are read.
const atOnce = 8

// LookAll looks at the disks of those paths. Of two disks with the same file system, neither is known: btrfs would take the one for the
// other. mounts is the folder below which the node mounts pools.
func LookAll(ctx context.Context, disks []string, mounts string) []Found {
	all, first := make([]Found, len(disks)), map[string]int{}
	beside(len(disks), func(i int) { all[i] = super(disks[i]) })
	for i, disk := range disks {
		if all[i].UUID == "" {
			continue
		}
		before, twice := first[all[i].UUID]
		if !twice {
			first[all[i].UUID] = i
			continue
		}
		all[i].Kind, all[i].What = Copy, "the same file system as "+disks[before]+": one is a copy"
		all[before].Kind, all[before].What = Copy, "the same file system as "+disk+": one is a copy"
	}
	// The pools come first: while a disk is looked at for other content, its partitions can't be mounted.
	for _, pools := range []bool{true, false} {
		beside(len(all), func(i int) {
			if all[i].Kind == "" && (all[i].Pool != "") == pools {
				all[i].look(ctx, mounts)
			}
		})
	}
	return all
}

// beside calls a function for each of count disks, for atOnce of them at a time.
func beside(count int, each func(i int)) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range count {
		group.Go(func() error {
			each(i)
			return nil
		})
	}
	_ = group.Wait() // none fails
}

// super reads what a disk's superblock says. The kind is empty if the rest has to be looked at.
func super(disk string) Found {
	f := Found{Disk: disk}
	device, err := filepath.EvalSymlinks(disk)
	if err != nil {
		return f.unknown(errors.Wrap(err, "it isn't there"))
	}
	f.Device = device
	s, err := btrfs.ReadSuper(device)
	if err != nil && !errors.Is(err, node.NotExist) {
		return f.unknown(err)
	}
	name, own := strings.CutPrefix(s.Label, blockdev.LabelPrefix)
	if err != nil || !own {
		return f
	}
	f.Pool, f.UUID = name, s.UUID
	return f
}

func (f Found) unknown(err error) Found {
	f.Kind, f.What, f.Passing = Unknown, err.Error(), true
	return f
}

// look sets the kind.
func (f *Found) look(ctx context.Context, mounts string) {
	if f.Pool == "" {
		*f = f.others(ctx, mostLook)
		return
	}
	kind, err := f.pool(mounts)
	if err != nil {
		*f = f.unknown(err)
		return
	}
	f.Kind, f.What = kind, "pool "+f.Pool
}

// mostLook is how long a look at a disk without a pool may take: a healthy disk's takes seconds, and the node's state waits for it.
const mostLook = time.Minute

// others looks at a disk without a pool, for as long as limit.
func (f Found) others(ctx context.Context, limit time.Duration) Found {
	if s, err := btrfs.ReadUnfinished(f.Device); err == nil && strings.HasPrefix(s.Label, blockdev.LabelPrefix) {
		f.Kind, f.What = Empty, "a pool that wasn't formatted to the end"
		return f
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	content, err := blockdev.Probe(within, f.Device)
	switch {
	case err != nil && ctx.Err() == nil && within.Err() != nil:
		f.Kind, f.What, f.Passing = Other, blockdev.Unreadable+" within "+limit.String(), true
		return f
	case errors.Is(err, node.Busy):
		f.Kind, f.What = Other, "it is in use"
		return f
	case err != nil:
		return f.unknown(err)
	case content == "":
		f.Kind, f.What = Empty, "nothing"
		return f
	}
	f.Kind, f.What, f.Passing = Other, content, strings.HasPrefix(content, blockdev.Unreadable)
	if s, err := btrfs.ReadCopy(f.Device); err == nil && strings.HasPrefix(s.Label, blockdev.LabelPrefix) && strings.HasPrefix(content, blockdev.Damaged) {
		f.Kind, f.UUID, f.Passing = Unknown, s.UUID, true
		f.What = content + ", which can be repaired: btrfs rescue super-recover " + f.Device
	}
	return f
}

// pool looks at a pool where it is mounted, or mounts it where nobody sees it.
func (f Found) pool(mounts string) (Kind, error) {
	at, used := filepath.Join(mounts, f.Pool), false
	mounted, err := blockdev.Mounts(f.Device)
	if err != nil {
		return "", err
	}
	for _, m := range mounted {
		switch {
		case m.Path == at:
			return kindAt(at)
		case blockdev.Inside(m, volume.StateRoot):
			used = true
		default:
			return "", errors.Errorf("it is mounted on %s", m.Path)
		}
	}
	if used {
		return State, nil
	}
	fd, err := mountUnseen(f.Device)
	if err != nil {
		return "", errors.Wrapf(err, "a pool that can't be mounted")
	}
	defer func() { _ = unix.Close(fd) }() // which unmounts it
	return kindAt("/proc/self/fd/" + strconv.Itoa(fd))
}

// kindAt is that of a pool mounted at a path.
func kindAt(path string) (Kind, error) {
	_, found, err := volume.NewState(volume.Pool{Path: path}, zerolog.Nop()).Get()
	if err != nil {
		return "", err
	}
	if found {
		return State, nil
	}
	unfinished, err := volume.Unfinished(path)
	if err != nil {
		return "", err
	}
	if unfinished {
		return Unfinished, nil
	}
	return Pool, nil
}

// mountUnseen mounts a btrfs so that nothing at all is written to it, not even its log, and in no mount namespace: the mount ends with
// its descriptor.
func mountUnseen(device string) (int, error) {
	context, err := unix.Fsopen("btrfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(context) }()
	for _, option := range []struct{ key, value string }{{"source", device}, {"rescue", "nologreplay"}} {
		if err := unix.FsconfigSetString(context, option.key, option.value); err != nil {
			return -1, errors.Wrapf(err, "cannot mount %s with %s", device, option.key)
		}
	}
	if err := unix.FsconfigSetFlag(context, "ro"); err != nil {
		return -1, errors.Wrapf(err, "cannot mount %s read-only", device)
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, errors.Wrapf(os.NewSyscallError("fsconfig", err), "cannot mount %s", device)
	}
	fd, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	return fd, errors.Wrapf(err, "cannot mount %s", device)
}
