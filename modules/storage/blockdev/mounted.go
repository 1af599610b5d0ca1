package blockdev

import (
	"os"
	"syscall"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

// CheckElsewhere refuses a disk that somebody else has mounted, by whatever
// name of it.
func CheckElsewhere(device, path string) error {
	disk, err := os.Stat(device)
	if err != nil {
		return errors.Wrap(err, "cannot find disk")
	}
	mounted, err := mounts.Read()
	if err != nil {
		return err
	}
	for _, m := range mounted {
		source, err := os.Stat(m.Source)
		if err != nil || m.Path == path {
			continue
		}
		if os.SameFile(source, disk) || source.Mode()&os.ModeDevice != 0 && rdev(source) == rdev(disk) {
			return node.Errorf(node.Refused, "cannot use disk %s: it is mounted on %s", device, m.Path)
		}
	}
	return nil
}

// rdev is the number of a device.
func rdev(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Rdev
	}
	return 0
}
