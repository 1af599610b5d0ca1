package disks

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/modules/storage/nodestate"
)

// Disk is a whole disk.
type Disk struct {
	// Name is the kernel's: sda. It may be another disk's at the next boot.
	Name string
	// IDs are names that stay, the best first; no other disk has one of them.
	IDs   []string
	Bytes int64
	// Removable is whether its medium is, as the kernel says: most USB sticks and cards.
	Removable bool
	// Unusable is why nothing may be made of it; empty if something may.
	Unusable string
	// Holds is what is on it.
	Holds nodestate.Found
}

// Device is the path of the disk by the kernel's name.
func (d Disk) Device() string { return "/dev/" + d.Name }

// byID is the folder of the names that stay.
const byID = "/dev/disk/by-id"

// Path is the disk's path by the best name that it has.
func (d Disk) Path() string {
	if len(d.IDs) == 0 {
		return d.Device()
	}
	return filepath.Join(byID, d.IDs[0])
}

// is reports whether a path is one of the disk's.
func (d Disk) is(path string) bool {
	return path == d.Device() || filepath.Dir(path) == byID && slices.Contains(d.IDs, filepath.Base(path))
}

// Finder finds disks.
type Finder struct {
	// Sys is where sysfs is mounted: /sys.
	Sys string
	// Boot is the device that the machine was booted from, which may be a partition; empty for none.
	Boot string
	// Mounts is the folder below which the node mounts pools.
	Mounts string

	// last is what was found last, so that disks are read anew only after one has come or gone.
	last []Disk
}

// Find lists the machine's disks, by their names, with what they hold. Partitions, optical drives and the kernel's own block devices
// are none.
func (f *Finder) Find(ctx context.Context) ([]Disk, error) {
	all, err := f.list()
	if err != nil {
		return nil, err
	}
	if f.last != nil && slices.EqualFunc(all, f.last, same) {
		return f.last, nil
	}
	var paths []string
	for _, d := range all {
		paths = append(paths, d.Device())
	}
	lasting := true
	for i, found := range nodestate.LookAll(ctx, paths, f.Mounts) {
		if all[i].Bytes == 0 {
			found = nodestate.Found{Kind: nodestate.Other, What: "no medium"}
		}
		all[i].Holds = found
		lasting = lasting && !found.Passing
	}
	f.last = nil
	if lasting {
		f.last = all
	}
	return all, nil
}

// Forget has the next Find read all disks anew.
func (f *Finder) Forget() { f.last = nil }

// same reports whether a disk is one that was found before.
func same(a, b Disk) bool {
	return a.Name == b.Name && a.Bytes == b.Bytes && slices.Equal(a.IDs, b.IDs) && a.Unusable == b.Unusable
}

// list reads sysfs.
func (f *Finder) list() ([]Disk, error) {
	entries, err := os.ReadDir(filepath.Join(f.Sys, "block"))
	if err != nil {
		return nil, errors.Wrap(err, "cannot list the machine's disks")
	}
	var out []Disk
	for _, e := range entries {
		if virtual(e.Name()) {
			continue
		}
		at := filepath.Join(f.Sys, "block", e.Name())
		d := Disk{
			Name: e.Name(), IDs: ids(at, e.Name()), Bytes: guest.ReadNumber(filepath.Join(at, "size")) * sector,
			Removable: guest.ReadNumber(filepath.Join(at, "removable")) != 0,
		}
		d.Unusable = f.unusable(at, d)
		out = append(out, d)
	}
	return unique(out), nil
}

// sector is the unit of sizes in sysfs, in bytes.
const sector = 512

// virtual reports whether a block device is one that the kernel makes of others or of memory, or can't be written to by its kind.
func virtual(name string) bool {
	return slices.ContainsFunc([]string{"loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "mtdblock"}, func(kind string) bool {
		return strings.HasPrefix(name, kind)
	}) || strings.HasPrefix(name, "mmcblk") && (strings.Contains(name, "boot") || strings.Contains(name, "rpmb"))
}

// unusable is why nothing may be made of a disk.
func (f *Finder) unusable(at string, d Disk) string {
	if booted := filepath.Base(f.Boot); f.Boot != "" {
		if _, err := os.Stat(filepath.Join(at, booted)); err == nil || booted == d.Name {
			return "the machine was booted from it"
		}
	}
	switch {
	case d.Bytes == 0:
		return "it has no medium"
	case guest.ReadNumber(filepath.Join(at, "ro")) != 0:
		return "it can't be written to"
	}
	holders, _ := filepath.Glob(filepath.Join(at, "holders", "*"))
	below, _ := filepath.Glob(filepath.Join(at, d.Name+"*", "holders", "*"))
	if holders = append(holders, below...); len(holders) > 0 {
		return "it is a part of " + filepath.Base(holders[0])
	}
	return ""
}

// unique takes names away that more than one disk has: those of a disk with two ways to it, or with a serial number that isn't one.
func unique(all []Disk) []Disk {
	count := map[string]int{}
	for _, d := range all {
		for _, id := range d.IDs {
			count[id]++
		}
	}
	for i := range all {
		all[i].IDs = slices.DeleteFunc(all[i].IDs, func(id string) bool { return count[id] > 1 })
	}
	return all
}

// Link makes the links of all disks in a folder, which is /dev/disk/by-id, and removes those that no disk has any more.
func Link(folder string, all []Disk) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return errors.Wrap(err, "cannot name the machine's disks")
	}
	want := map[string]string{}
	for _, d := range all {
		for _, id := range d.IDs {
			want[id] = "../../" + d.Name
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return errors.Wrap(err, "cannot name the machine's disks")
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		to, _ := os.Readlink(path)
		if to != "" && to == want[e.Name()] {
			delete(want, e.Name())
			continue
		}
		if err := os.Remove(path); err != nil {
			return errors.Wrap(err, "cannot name the machine's disks")
		}
	}
	for id, to := range want {
		if err := os.Symlink(to, filepath.Join(folder, id)); err != nil {
			return errors.Wrap(err, "cannot name the machine's disks")
		}
	}
	return nil
}
