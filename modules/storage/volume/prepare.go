package volume

import (
	"os"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/btrfs"
)

// Prepare repairs the content of a mounted pool after any end of the last module: it
// makes folders, turns on quotas, removes half made and half removed things, and sets
// the limits, the images and the index by the labels.
func Prepare(f *btrfs.FS, all All, want Quota) error {
	v, d := all.Filesystems, all.Disks
	// Containers' users reach their volumes; only root reaches a disk.
	if err := v.makeFolder(0o711); err != nil {
		return err
	}
	if err := d.makeFolder(0o700); err != nil {
		return err
	}
	volumes, err := v.Labels()
	if err != nil {
		return err
	}
	disks, err := d.Labels()
	if err != nil {
		return err
	}
	state, err := all.State.Labels()
	if err != nil {
		return err
	}
	if err := all.turnOn(f, want, len(volumes)+len(disks)+len(state) > 0); err != nil {
		return err
	}
	if err := all.State.repair(f, state); err != nil {
		return err
	}
	if err := v.repair(f, volumes); err != nil {
		return err
	}
	if err := d.repair(f, disks); err != nil {
		return err
	}
	d.extendAll(disks)
	_, _, err = Sweep(f, 0)
	return err
}

func (v *subvolumes) makeFolder(mode os.FileMode) error {
	if err := os.Mkdir(v.dir, mode); err != nil && !errors.Is(err, os.ErrExist) {
		return btrfs.Wrap(err, "cannot make %s", v.dir)
	}
	return btrfs.Wrap(os.Chmod(v.dir, mode), "cannot set the mode of %s", v.dir)
}

// repair removes temporaries, and sets limits and index by the labels.
func (v *subvolumes) repair(f *btrfs.FS, labels map[string]Label) error {
	if err := v.clearTemporaries(f); err != nil {
		return err
	}
	if _, err := v.ensureLimits(f, labels); err != nil {
		return err
	}
	if missing := v.index.others(labels); len(missing) > 0 {
		v.log.Warn().Str("pool", v.pool).Strs("names", missing).Msg(v.says.missing)
	}
	return v.index.set(labels)
}

// extendAll ends what a crash left of growing. An image that can't be extended is no reason
// not to use the pool.
func (d *Disks) extendAll(labels map[string]Label) {
	for name, l := range labels {
		if err := d.Extend(l); err != nil {
			d.log.Error().Err(err).Str("pool", d.pool).Str("name", name).Msg("a vdisk is damaged")
		}
	}
}

func isTemporary(name string) bool {
	return strings.HasPrefix(name, newPrefix) || strings.HasPrefix(name, gonePrefix)
}

func (v *subvolumes) clearTemporaries(f *btrfs.FS) error {
	names, err := v.temporaries()
	for _, name := range names {
		if err == nil {
			err = v.clear(f, name)
		}
	}
	return err
}
