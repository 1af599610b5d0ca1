package volume

import (
	"maps"
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// Limited reports whether the quotas of a prepared pool are on, and limit each thing as its label says. It changes
// nothing, and may run beside changes: then it may be wrong.
func Limited(f *btrfs.FS, all All) (bool, error) {
	state, err := f.Quota()
	if err != nil || state.Kind != all.Filesystems.limits.kind() {
		return false, err
	}
	for _, kind := range all.kinds() {
		labels, err := kind.Labels()
		if err != nil {
			return false, err
		}
		if others, err := kind.unlimited(f, labels); err != nil || len(others) > 0 {
			return false, err
		}
	}
	return true, nil
}

// Limit turns on the quotas of a prepared pool if they are off, and limits each thing as its label says. It returns the names of
// those that had another limit.
func Limit(f *btrfs.FS, all All, want Quota) (names []string, err error) {
	state, err := f.Quota()
	if err != nil {
		return nil, err
	}
	var labels []map[string]Label
	count := 0
	for _, kind := range all.kinds() {
		l, err := kind.Labels()
		if err != nil {
			return nil, err
		}
		labels, count = append(labels, l), count+len(l)
	}
	if state.Kind != all.Filesystems.limits.kind() {
		if err := all.turnOn(f, want, count > 0); err != nil {
			return nil, err
		}
	}
	for i, kind := range all.kinds() {
		more, err := kind.ensureLimits(f, labels[i])
		names = append(names, more...)
		if err != nil {
			return names, err
		}
	}
	return names, nil
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
