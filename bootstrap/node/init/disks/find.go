package disks

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/modules/storage/blockdev"
	"github.com/croft-edge/croft/modules/storage/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// Disk is a whole disk.
type Disk struct {
	// Name is the kernel's, such as sda.
	Name string
	// IDs are the names below /dev/disk/by-id, the best first; none for a disk that has no serial number.
	IDs []string
	// Bytes is the size; 0 for a drive without a medium.
	Bytes int64
	// Boot tells that the machine has booted from it; Removable and ReadOnly are as the kernel has them.
	Boot, Removable, ReadOnly bool
	// Pool is the name of the croft pool on it, UUID that of its file system; both are empty without one.
	Pool, UUID string
	// Holds is what is on it, empty for nothing; Unread is why that isn't known.
	Holds, Unread string
}

// Device is the kernel's path of the disk.
func (d Disk) Device() string { return "/dev/" + d.Name }

// Path is the path by which the disk is known: one that stays, if there is one.
func (d Disk) Path() string {
	if len(d.IDs) > 0 {
		return filepath.Join(byID, d.IDs[0])
	}
	return d.Device()
}

// Names are all paths of the disk.
func (d Disk) Names() []string {
	out := []string{d.Device()}
	for _, id := range d.IDs {
		out = append(out, filepath.Join(byID, id))
	}
	return out
}

// Find lists the machine's disks, sorted by their names. boot is the device of the boot medium, a disk or a partition; empty for none.
func Find(ctx context.Context, sys, boot string) ([]Disk, error) {
	entries, err := os.ReadDir(filepath.Join(sys, "block"))
	if err != nil {
		return nil, errors.Wrap(err, "cannot list the machine's disks")
	}
	var out []Disk
	for _, e := range entries {
		if virtual(e.Name()) {
			continue
		}
		d := read(sys, e.Name())
		d.Boot = boot != "" && (d.Device() == boot || isPartition(sys, d.Name, filepath.Base(boot)))
		if d.Bytes > 0 && !d.Boot {
			d.look(ctx)
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Disk) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// virtual reports whether a device isn't a disk of its own: optical and floppy drives aren't either.
func virtual(name string) bool {
	return slices.ContainsFunc([]string{"loop", "ram", "zram", "dm-", "md", "nbd", "sr", "fd"}, func(p string) bool { return strings.HasPrefix(name, p) })
}

func isPartition(sys, disk, name string) bool {
	_, err := os.Stat(filepath.Join(sys, "block", disk, name, "partition"))
	return err == nil
}

// read reads what the kernel shows of a disk.
func read(sys, name string) Disk {
	at := filepath.Join(sys, "block", name)
	return Disk{
		Name: name, IDs: ids(at), Bytes: guest.ReadNumber(at+"/size") * 512,
		Removable: guest.ReadNumber(at+"/removable") != 0, ReadOnly: guest.ReadNumber(at+"/ro") != 0,
	}
}

// look reads what is on a disk.
func (d *Disk) look(ctx context.Context) {
	super, err := btrfs.ReadSuper(d.Device())
	if name, own := strings.CutPrefix(super.Label, blockdev.LabelPrefix); err == nil && own {
		d.Pool, d.UUID, d.Holds = name, super.UUID, "pool "+name
		return
	}
	if err != nil && !errors.Is(err, node.NotExist) {
		d.Unread = err.Error()
		return
	}
	if d.Holds, err = blockdev.Probe(ctx, d.Device()); err != nil {
		d.Unread = err.Error()
	}
}
