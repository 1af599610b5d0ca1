package volume

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/storage/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// Prepare repairs the content of a mounted pool after any end of the last module: it
// makes folders, turns on quotas, removes half made and half removed things, and sets
// the limits and the index by the labels.
func Prepare(f *btrfs.FS, v *Filesystems, d *Disks, want Quota) error {
	if err := v.makeFolder(); err != nil {
		return err
	}
	if err := d.makeFolder(); err != nil {
		return err
	}
	labels, err := v.Labels()
	if err != nil {
		return err
	}
	if v.limits.kind, err = ensureQuota(f, want, len(labels) > 0); err != nil {
		return err
	}
	if err := v.clearTemporaries(f); err != nil {
		return err
	}
	if err := d.clearTemporaries(); err != nil {
		return err
	}
	if err := v.ensureLimits(f, labels); err != nil {
		return err
	}
	if _, _, err := Sweep(f, 0); err != nil {
		return err
	}
	disks, err := d.Labels()
	if err != nil {
		return err
	}
	if missing := v.index.others(labels); len(missing) > 0 {
		v.log.Warn().Str("pool", v.pool).Strs("names", missing).Msg("filesystems of the index aren't on the pool: never finished, not written before a power cut, or removed by somebody else")
	}
	if err := v.index.set(labels); err != nil {
		return err
	}
	return d.index.set(disks)
}

func (v *Filesystems) makeFolder() error {
	if err := os.Mkdir(v.dir, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return btrfs.Wrap(err, "cannot make %s", v.dir)
	}
	return nil
}

// makeFolder makes a subvolume, so that a snapshot of the pool doesn't make each write
// to the disks a copy.
func (d *Disks) makeFolder() error {
	if err := btrfs.CreateSubvolume(filepath.Dir(d.dir), filepath.Base(d.dir)); err != nil && !errors.Is(err, node.Exist) {
		return err
	}
	return btrfs.Wrap(os.Chmod(d.dir, 0o711), "cannot make %s", d.dir)
}

func isTemporary(name string) bool {
	return strings.HasPrefix(name, newPrefix) || strings.HasPrefix(name, gonePrefix)
}

func (v *Filesystems) clearTemporaries(f *btrfs.FS) error {
	names, err := v.temporaries()
	for _, name := range names {
		if err == nil {
			err = v.clear(f, name)
		}
	}
	return err
}

func (d *Disks) clearTemporaries() error {
	names, err := d.temporaries()
	for _, name := range names {
		if err == nil {
			err = d.clear(name)
		}
	}
	return err
}

// ensureLimits gives each file system the limit its label says, if it has another.
func (v *Filesystems) ensureLimits(f *btrfs.FS, labels map[string]Label) error {
	groups, err := f.Groups()
	if err != nil {
		return err
	}
	for name, l := range labels {
		id, err := btrfs.SubvolumeID(v.Place(name))
		if err != nil {
			return err
		}
		if g := groups[v.limits.group(id)]; g != nil && g.Max == l.Size {
			continue
		}
		if err := v.limits.set(f, id, l.Size); err != nil {
			return err
		}
	}
	return nil
}
