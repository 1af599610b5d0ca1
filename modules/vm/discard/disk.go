package discard

import (
	"unsafe"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// ErrNotBtrfs is the error of OpenDisk for a file of another file system.
var ErrNotBtrfs = errors.New("it isn't on btrfs")

// punchMode is the only mode of fallocate(2) that a guest's discard is.
const punchMode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE

// The bound of what is given back and not committed when a guest learns of it: until then it counts for the quota of the disk, which has 64 MiB and a
// sixteenth of the size beside the size (docs/storage.md). Half of that stays for its other purposes. So a guest that writes as fast as it
// discards doesn't meet the quota, and a discard of everything takes some 32 commits at most.
const (
	pendingBytes = 32 << 20
	pendingPart  = 32
)

// Disk is a file on btrfs whose discards are passed on. One goroutine uses it at a time. Its memory doesn't grow with requests.
type Disk struct {
	fd    int
	inode uint64
	// pending is what was given back since the last commit, and mostPending its bound, in bytes.
	pending, mostPending uint64

	args   *searchArgs
	items  []extent
	chosen []span
}

// OpenDisk makes a disk of a file that is open for writing. The process needs CAP_SYS_ADMIN, to see the file system's extents.
func OpenDisk(fd int) (*Disk, error) {
	var system unix.Statfs_t
	var stat unix.Stat_t
	if err := unix.Fstatfs(fd, &system); err != nil {
		return nil, errors.Wrap(err, "cannot look at a disk's file system")
	}
	if system.Type != unix.BTRFS_SUPER_MAGIC {
		return nil, ErrNotBtrfs
	}
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, errors.Wrap(err, "cannot look at a disk")
	}
	d := &Disk{fd: fd, inode: stat.Ino, mostPending: pendingBytes + uint64(stat.Size)/pendingPart, args: &searchArgs{}}
	_, _, err := d.args.search(d.fd, d.inode, span{0, 1}, nil)
	return d, err
}

// Discard gives back the space of the extents that lie in a part of the file whole; all else stays as it is. What isn't on the disk
// yet is no extent. It stops when goOn returns false. ENOSPC and EDQUOT are no errors of it: what has no room to be given back stays.
func (d *Disk) Discard(offset, length uint64, goOn func() bool) error {
	err := d.give(span{offset, offset + length}, goOn)
	if err == nil && d.pending > d.mostPending {
		err = errors.Wrap(commit(d.fd), "cannot commit discards of a disk")
		d.pending = 0
	}
	return err
}

// give punches the extents of a request, and no others, although the tree changes meanwhile: an image is written in place, so an extent stays
// where it is until it is discarded, which one goroutine does.
func (d *Disk) give(request span, goOn func() bool) error {
	for from := request.from; from < request.to; {
		found, next, err := d.args.search(d.fd, d.inode, span{from, request.to}, d.items[:0])
		if err != nil {
			return err
		}
		d.items, d.chosen = found, whole(found, request, d.chosen[:0])
		for _, s := range d.chosen {
			if !goOn() {
				return nil
			}
			err := again(func() error { return unix.Fallocate(d.fd, punchMode, int64(s.from), int64(s.to-s.from)) })
			if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
				return nil
			}
			if err != nil {
				return errors.Wrap(err, "cannot give back space of a disk")
			}
			d.pending += s.to - s.from
		}
		from = next
	}
	return nil
}

// commit has the file system commit what was changed, without writing what it still has to write, and waits for that.
func commit(fd int) error {
	var transaction uint64
	if err := control(fd, iocStartSync, unsafe.Pointer(&transaction)); err != nil {
		return err
	}
	return control(fd, iocWaitSync, unsafe.Pointer(&transaction))
}

// control makes an ioctl.
func control(fd int, number uintptr, argument unsafe.Pointer) error {
	return again(func() error {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), number, uintptr(argument)); errno != 0 {
			return errno
		}
		return nil
	})
}

// again makes a call until no signal ends it.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
