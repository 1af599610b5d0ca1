package volume

import (
	"maps"
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/storage/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// Limited reports whether the quotas of a prepared pool are on, and limit each thing as its label says. It changes
// nothing, and may run beside changes: then it may be wrong.
func Limited(f *btrfs.FS, v *Filesystems, d *Disks) (bool, error) {
	state, err := f.Quota()
	if err != nil || state.Kind != v.limits.kind() {
		return false, err
	}
	for _, all := range []*subvolumes{&v.subvolumes, &d.subvolumes} {
		labels, err := all.Labels()
		if err != nil {
			return false, err
		}
		if others, err := all.unlimited(f, labels); err != nil || len(others) > 0 {
			return false, err
		}
	}
	return true, nil
}

// Limit turns on the quotas of a prepared pool if they are off, and limits each thing as its label says. It returns the names of
// those that had another limit.
func Limit(f *btrfs.FS, v *Filesystems, d *Disks, want Quota) (names []string, err error) {
	state, err := f.Quota()
	if err != nil {
		return nil, err
	}
	volumes, err := v.Labels()
	if err != nil {
		return nil, err
	}
	disks, err := d.Labels()
	if err != nil {
		return nil, err
	}
	if state.Kind != v.limits.kind() {
		if err := v.limits.turnOn(f, want, len(volumes)+len(disks) > 0); err != nil {
			return nil, err
		}
	}
	names, err = v.ensureLimits(f, volumes)
	if err != nil {
		return names, err
	}
	more, err := d.ensureLimits(f, disks)
	return append(names, more...), err
}

// ensureLimits gives each subvolume the limit its label says, if it has another, and returns the names of these.
func (v *subvolumes) ensureLimits(f *btrfs.FS, labels map[string]Label) ([]string, error) {
	others, err := v.unlimited(f, labels)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(others))
	for _, name := range names {
		if err := v.limits.set(f, others[name], v.room(labels[name].Size)); err != nil {
			return names, err
		}
	}
	return names, nil
}

// unlimited are the IDs of the subvolumes, by their names, that have another limit than their label says.
func (v *subvolumes) unlimited(f *btrfs.FS, labels map[string]Label) (map[string]uint64, error) {
	groups, err := f.Groups()
	if err != nil {
		return nil, err
	}
	inside, err := f.Memberships()
	if err != nil {
		return nil, err
	}
	others := map[string]uint64{}
	for name, l := range labels {
		id, err := btrfs.SubvolumeID(v.Place(name))
		if errors.Is(err, node.NotExist) {
			continue // it was removed just now
		}
		if err != nil {
			return nil, err
		}
		group := v.limits.group(id)
		if g := groups[group]; g == nil || g.Max != v.room(l.Size) || group != id && !inside[btrfs.Membership{Group: id, In: group}] {
			others[name] = id
		}
	}
	return others, nil
}
