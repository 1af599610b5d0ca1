package config

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/croft-edge/croft/cmd/croftd/internal/mirrors"
)

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
	for _, why := range l.mirrorFaults() {
		refuse("mirrors", why)
	}
	return faults
}

// mirrorFaults says what is wrong with the places of mirrors together, and beside the store itself.
func (l *Loaded) mirrorFaults() (out []string) {
	for i, p := range l.Mirrors {
		if first := slices.IndexFunc(l.Mirrors, func(other mirrors.Place) bool { return other.Where() == p.Where() }); first < i {
			out = append(out, fmt.Sprintf("places that are named once; %s is the same place as %s", Masked(p.Text), Masked(l.Mirrors[first].Text)))
		}
		store := filepath.Join(l.StateDir, "store")
		if p.FS != nil && (below(p.FS.Folder, store) || below(store, p.FS.Folder)) {
			out = append(out, fmt.Sprintf("folders that are neither the store's, %s, nor below or above it; %s would be a mirror of itself", store, Masked(p.Text)))
		}
	}
	return out
}

// below reports whether a folder is another one, or below it.
func below(folder, other string) bool {
	way, err := filepath.Rel(other, folder)
	return err == nil && filepath.IsLocal(way)
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
