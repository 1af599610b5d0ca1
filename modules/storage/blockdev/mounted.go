package blockdev

import (
	"os"
	"strings"
	"syscall"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

// CheckElsewhere refuses a disk that somebody else has mounted, by whatever
// name of it. Not somebody else's are the mount on path, and those of the folder own of its file system.
func CheckElsewhere(device, path, own string) error {
	mounted, err := Mounts(device)
	if err != nil {
		return err
	}
	for _, m := range mounted {
		if m.Path != path && !Inside(m, own) {
			return node.Errorf(node.Refused, "cannot use disk %s: it is mounted on %s", device, m.Path)
		}
	}
	return nil
}

// Mounts are the mounts of a disk, by whatever name of it.
func Mounts(device string) (mounts.Table, error) {
	disk, err := os.Stat(device)
	if err != nil {
		return nil, errors.Wrap(err, "cannot find disk")
	}
	mounted, err := mounts.Read()
	if err != nil {
		return nil, err
	}
	var out mounts.Table
	for _, m := range mounted {
		source, err := os.Stat(m.Source)
		if err != nil {
			continue
		}
		if os.SameFile(source, disk) || source.Mode()&os.ModeDevice != 0 && rdev(source) == rdev(disk) {
			out = append(out, m)
		}
	}
	return out, nil
}

// Inside reports whether a mount shows a folder of its file system, or something below it.
func Inside(m mounts.Mount, folder string) bool {
	return m.Root == folder || strings.HasPrefix(m.Root, folder+"/")
}

// rdev is the number of a device.
func rdev(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Rdev
	}
	return 0
}
