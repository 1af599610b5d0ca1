package discard

import (
	"time"
	"unsafe"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// ErrNotBtrfs is the error of OpenDisk for a file of another file system.
var ErrNotBtrfs = errors.New("it isn't on btrfs")

// punchMode is the only mode of fallocate(2) that a guest's discard is.
const punchMode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE

// The bound of what is given back and not committed: until a commit it counts for the quota of the disk, which has 64 MiB and a
// sixteenth of the size beside the size (docs/storage.md). Half of that stays for its other purposes. So a guest that writes as fast as it
// discards doesn't meet the quota. Each hole holds a leaf of the tree beside its bytes, 16 KiB at most.
const (
	pendingBytes = 32 << 20
	pendingPart  = 32
	leafBytes    = 16 << 10
	// commitEvery is the least time between two commits of a disk: they cost all users of the pool. A guest that discards faster waits.
	commitEvery = time.Second
)

// Disk is a file on btrfs whose discards are passed on. One goroutine uses it at a time. Its memory doesn't grow with requests.
type Disk struct {
	fd    int
	inode uint64
	// pending is what was given back since the last commit, and mostPending its bound, in bytes.
	pending, mostPending uint64
	// committed is when the last commit was, every the least time between two.
	committed time.Time
	every     time.Duration

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
	d := &Disk{fd: fd, inode: stat.Ino, mostPending: pendingBytes + uint64(stat.Size)/pendingPart, every: commitEvery, args: &searchArgs{}}
	_, _, err := d.args.search(d.fd, d.inode, span{0, 1}, nil)
	return d, err
}

// Discard gives back the space of the extents that lie in a part of the file whole; all else stays as it is. What isn't on the disk
// yet is no extent. It stops when goOn returns false. ENOSPC and EDQUOT are no errors of it: what has no room to be given back stays.
//
// No other extent is punched, although the tree changes meanwhile: an image is written in place, so an extent stays where it is until it is
// discarded, which one goroutine does. An extent that is several items of the tree is given back in part only if it stops between them.
func (d *Disk) Discard(offset, length uint64, goOn func() bool) error {
	request := span{offset, offset + length}
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
			done, err := d.give(s)
			if err != nil || !done {
				return err
			}
		}
		from = next
	}
	return nil
}

// give punches a part of the file. done is false when there is no room for that.
func (d *Disk) give(s span) (done bool, err error) {
	for {
		err := again(func() error { return unix.Fallocate(d.fd, punchMode, int64(s.from), int64(s.to-s.from)) })
		full := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
		switch {
		case full && d.pending == 0:
			return false, nil
		case full: // what a commit gives back may be enough
		case err != nil:
			return false, errors.Wrap(err, "cannot give back space of a disk")
		default:
			d.pending += s.to - s.from + leafBytes
		}
		if full || d.pending > d.mostPending {
			if err := d.commit(); err != nil {
				return false, err
			}
		}
		if !full {
			return true, nil
		}
	}
}

// commit makes what was given back not count any more, not sooner than every after the last commit.
func (d *Disk) commit() error {
	if wait := d.every - time.Since(d.committed); wait > 0 {
		<-time.After(wait)
	}
	err := commit(d.fd)
	d.pending, d.committed = 0, time.Now()
	return errors.Wrap(err, "cannot commit discards of a disk")
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
