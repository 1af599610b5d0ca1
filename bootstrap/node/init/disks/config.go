package disks

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/fslabel"
)

// configLabels are the labels of a file system, or of its partition, that has the node's settings. FAT's have 11 characters.
func configLabels() []string { return []string{"croft-config", "croftconfig"} }

// ConfigPartition is a file system with the node's settings.
type ConfigPartition struct {
	// Device is its path, Kind that of its file system as mount(2) names it.
	Device, Kind string
}

// FindConfig looks for the file system with the node's settings among the block devices that sysfs shows. found is false if there is none.
func FindConfig(sys, dev string) (p ConfigPartition, found bool, err error) {
	folder := filepath.Join(sys, "class", "block")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return p, false, errors.Wrap(err, "cannot look for the node's settings")
	}
	var all []ConfigPartition
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, "sr") && virtual(name) {
			continue
		}
		device := filepath.Join(dev, e.Name())
		label, err := fslabel.Of(device)
		if err != nil {
			continue // a drive without a disk can't be read
		}
		named := isConfig(partitionName(filepath.Join(folder, e.Name())))
		if !named && !slices.ContainsFunc(configLabels(), label.Is) {
			continue
		}
		if label.Kind == "" {
			return p, false, errors.Errorf("cannot read the node's settings: partition %s is named for them, and its file system is none of vfat, ext4 and iso9660", device)
		}
		all = append(all, ConfigPartition{device, label.Kind})
	}
	switch len(all) {
	case 0:
		return p, false, nil
	case 1:
		return all[0], true, nil
	}
	return p, false, errors.Errorf("cannot tell which are the node's settings: %s and %s are both labelled for them: unplug one", all[0].Device, all[1].Device)
}

func isConfig(name string) bool {
	return slices.ContainsFunc(configLabels(), func(label string) bool { return strings.EqualFold(name, label) })
}

// partitionName is the name of a partition in the GPT.
func partitionName(at string) string {
	for line := range strings.Lines(guest.ReadText(filepath.Join(at, "uevent"))) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PARTNAME="); ok {
			return name
		}
	}
	return ""
}

// Mount mounts it at a folder, read-only.
func (p ConfigPartition) Mount(at string) error {
	if err := os.MkdirAll(at, 0o700); err != nil {
		return errors.Wrap(err, "cannot mount the node's settings")
	}
	options := ""
	if p.Kind == fslabel.Ext4 {
		options = "noload" // not even its journal is replayed
	}
	err := unix.Mount(p.Device, at, p.Kind, unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options)
	return errors.Wrapf(err, "cannot mount the node's settings from %s", p.Device)
}
