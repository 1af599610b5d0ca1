package config

import "slices"

// minPool is the smallest pool on which btrfs works well.
const minPool = 256 << 20

// validate checks the relations between settings.
func (l *Loaded) validate() (faults []error) {
	refuse := func(name, allowed string) { faults = append(faults, l.value(name).refuse(allowed)) }
	if l.StateDir == l.RunDir {
		refuse("run-dir", "another folder than state-dir: its content doesn't survive a reboot")
	}
	if len(l.Disks) == 0 && l.PoolSize < minPool {
		refuse("pool-size", "at least 256MiB when no disks are named")
	}
	seen := map[string]bool{}
	for _, d := range l.Disks {
		if seen[d.Path] {
			refuse("disk", "disks that are named once; "+d.Path+" is named twice")
		}
		seen[d.Path] = true
	}
	for _, path := range l.WipeDisks {
		if !slices.ContainsFunc(l.Disks, func(d Disk) bool { return d.Path == path }) {
			refuse("wipe-disk", "disks that are named in disk; "+path+" isn't")
		}
	}
	return faults
}

// value is the value of a setting; without one, as of a node without the module that it is a setting of, an
// empty one of that name.
func (l *Loaded) value(name string) Value {
	for _, v := range l.Values {
		if v.Setting.Name == name {
			return v
		}
	}
	return Value{Setting: Setting{Name: name}, Source: "default"}
}
