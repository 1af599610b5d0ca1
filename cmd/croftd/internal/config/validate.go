package config

import (
	"slices"

	"github.com/pkg/errors"
)

// minPool is the smallest pool on which btrfs works well.
const minPool = 256 << 20

// validate checks the relations between settings.
func (l *Loaded) validate() error {
	if l.StateDir == l.RunDir {
		return l.refuse("run-dir", "another folder than state-dir: its content doesn't survive a reboot")
	}
	if len(l.Disks) == 0 && l.PoolSize < minPool {
		return l.refuse("pool-size", "at least 256MiB when no disks are named")
	}
	seen := map[string]bool{}
	for _, d := range l.Disks {
		if seen[d.Path] {
			return l.refuse("disk", "disks that are named once; "+d.Path+" is named twice")
		}
		seen[d.Path] = true
	}
	for _, path := range l.WipeDisks {
		if !slices.ContainsFunc(l.Disks, func(d Disk) bool { return d.Path == path }) {
			return l.refuse("wipe-disk", "disks that are named in disk; "+path+" isn't")
		}
	}
	return nil
}

func (l *Loaded) refuse(name, allowed string) error {
	for _, v := range l.Values {
		if v.Setting.Name == name {
			return errors.Errorf("cannot use %s = %q (from %s): it must be %s", name, Masked(v.Text), v.Source, allowed)
		}
	}
	return errors.Errorf("cannot use %s: it must be %s", name, allowed)
}
