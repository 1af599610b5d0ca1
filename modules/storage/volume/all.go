package volume

import "github.com/croft-edge/croft/pkg/btrfs"

// All are all things of a pool.
type All struct {
	Filesystems *Filesystems
	Disks       *Disks
	State       *State
}

func (a All) kinds() []*subvolumes {
	return []*subvolumes{&a.Filesystems.subvolumes, &a.Disks.subvolumes, &a.State.subvolumes}
}

// turnOn turns on the quotas of the pool, which are the same for all its things.
func (a All) turnOn(f *btrfs.FS, want Quota, occupied bool) error {
	a.Disks.limits, a.State.limits = a.Filesystems.limits, a.Filesystems.limits
	return a.Filesystems.limits.turnOn(f, want, occupied)
}
