package volume

import (
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/saturate"
)

// nocow (FS_NOCOW_FL) makes btrfs write a file in place: a disk's blocks are
// written over and over, and the space of each must be enough for that.
const nocow = 0x00800000

// imageFile is the name of the image in a disk's subvolume.
const imageFile = "image"

// What a disk's quota has beside the size of its image, so that each block can be written.
const (
	// extents is the part of the size for the image's map of extents. In the worst case
	// each block of 4 KiB is an extent: an item of 78 bytes (struct btrfs_file_extent_item,
	// 53, and struct btrfs_item, 25), in leaves of which a third is used at least: btrfs
	// merges those with less. That is 234 bytes, and 8 in the nodes above: a seventeenth.
	// Measured were 1/42 at most (Linux 6.18, leaves of 4 and 16 KiB) after single blocks were
	// written, and written again, in random order: TestDisksKeepTheirPromise.
	extents = 16
	// inFlight is for what the kernel sets aside for writes that aren't committed yet, a
	// leaf of 4 to 16 KiB each; bytes. At the limit a write waits for one commit, and fails when
	// others have used up all that it gave back before this one goes on (Linux 6.18,
	// try_flush_qgroup). With 4 MiB 250 writes could do so, which was seen once on a busy node.
	inFlight = 64 * bytesize.MiB
)

// Disks are the virtual disks of a pool: subvolumes that hold an image each.
type Disks struct{ subvolumes }

// NewDisks returns those of a pool. Prepare comes before any change.
func NewDisks(p Pool, log zerolog.Logger) *Disks {
	d := &Disks{subvolumes{
		shelf: newShelf(p, "vdisk", "vdisks", vdiskLabel), limits: &limits{}, mode: 0o700, room: DiskRoom, log: log,
		says: messages{
			lost:    "a vdisk was removed by somebody else: it is made anew, empty, and what was in it is lost",
			missing: "vdisks of the index aren't on the pool: never finished, not written before a power cut, or removed by somebody else",
		},
	}}
	d.fill = d.makeImage
	return d
}

// DiskRoom is the limit in bytes of a disk of that size.
func DiskRoom(size uint64) uint64 { return saturate.Add(saturate.Add(size, size/extents), inFlight) }

// Image is the path of the image of the disk of that name.
func (d *Disks) Image(name string) string { return filepath.Join(d.Place(name), imageFile) }

// makeImage makes the image of a new disk at path: all of it is a hole.
func (d *Disks) makeImage(path string, l Label) error {
	if err := d.step("make image of vdisk"); err != nil {
		return err
	}
	path = filepath.Join(path, imageFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return btrfs.Wrap(err, "cannot make image %s", path)
	}
	defer file.Close()
	// The flag counts only on an empty file.
	if err := unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, nocow); err != nil {
		return btrfs.Wrap(err, "cannot make image %s write in place", path)
	}
	return btrfs.Wrap(file.Truncate(int64(l.Size)), "cannot make image %s of %s", path, bytesize.Format(l.Size))
}

// Grow gives the disk with that label a larger size; its data stays. The pool must have
// room. The label comes before the image: a crash in between leaves an image that is too
// short, and Extend, which the next Open and the next Allocate call, ends it.
func (d *Disks) Grow(f *btrfs.FS, l Label, size uint64) error {
	if err := d.grow(f, l, size); err != nil {
		return err
	}
	return d.Extend(l.sized(size))
}

// Extend makes the image as long as the label says, if it is shorter. It never makes one
// shorter. Transient when there is none.
func (d *Disks) Extend(l Label) error {
	path := d.Image(l.Name)
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return node.Errorf(node.Transient, "cannot use vdisk %s: its image %s is missing", l.Name, path)
	}
	if err != nil {
		return btrfs.Wrap(err, "cannot open image %s", path)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return btrfs.Wrap(err, "cannot find image %s", path)
	}
	if uint64(info.Size()) >= l.Size {
		return nil
	}
	if err := d.step("extend image of vdisk"); err != nil {
		return err
	}
	if err := file.Truncate(int64(l.Size)); err != nil {
		return btrfs.Wrap(err, "cannot extend image %s to %s", path, bytesize.Format(l.Size))
	}
	return btrfs.Wrap(file.Sync(), "cannot sync image %s", path)
}
