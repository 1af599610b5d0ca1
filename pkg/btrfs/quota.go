package btrfs

import (
	"encoding/binary"
	"math"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Quota is the kind of quota in force.
type Quota string

// The kinds of quota.
const (
	NoQuota Quota = ""
	// Simple charges an extent to the subvolume that first wrote it. Linux 6.7.
	Simple Quota = "simple"
	// Qgroup counts references, and can need a rescan.
	Qgroup Quota = "qgroup"
)

const (
	quotaEnable       = 1
	quotaEnableSimple = 4

	statusOn           = 1
	statusRescan       = 2
	statusInconsistent = 4
	statusSimple       = 8
)

// GroupID is the quota group of that level and number. Level 0 has one for
// each subvolume, of its ID.
func GroupID(level uint16, number uint64) uint64 { return uint64(level)<<48 | number }

// GroupLevel is the level of a quota group.
func GroupLevel(id uint64) uint16 { return uint16(id >> 48) }

// GroupNumber is the number of a quota group within its level.
func GroupNumber(id uint64) uint64 { return id & (1<<48 - 1) }

// EnableQuota turns on quotas of that kind; only Qgroup counts existing data.
// Invalid when the kernel doesn't have it.
func (f *FS) EnableQuota(kind Quota) error {
	args := quotaArgs{cmd: quotaEnable}
	if kind == Simple {
		args.cmd = quotaEnableSimple
	}
	return Wrap(call(f.root, iocQuotaCtl, &args), "cannot turn on %s quotas on %s", kind, f.root.Name())
}

// QuotaState is the quota tree's own state.
type QuotaState struct {
	Kind Quota
	// Inconsistent means that a rescan is needed before the counts are right.
	Inconsistent bool
	Rescanning   bool
}

// Quota reads the kind in force; NoQuota when there is none.
func (f *FS) Quota() (QuotaState, error) {
	var flags uint64
	err := f.search(slice{
		tree: quotaTree, minType: keyQgroupStatus, maxType: keyQgroupStatus, maxOffset: math.MaxUint64,
	}, func(i item) {
		if len(i.data) >= 24 {
			flags = binary.LittleEndian.Uint64(i.data[16:])
		}
	})
	if errors.Is(err, unix.ENOENT) || err == nil && flags&statusOn == 0 {
		return QuotaState{}, nil
	}
	state := QuotaState{Kind: Qgroup, Inconsistent: flags&statusInconsistent != 0, Rescanning: flags&statusRescan != 0}
	if flags&statusSimple != 0 {
		state.Kind = Simple
	}
	return state, Wrap(err, "cannot read the quotas of %s", f.root.Name())
}

// Rescan starts to count anew and doesn't wait. One that runs already is no error.
func (f *FS) Rescan() error {
	err := call(f.root, iocQuotaRescan, &rescanArgs{})
	if errors.Is(err, unix.EINPROGRESS) {
		return nil
	}
	return Wrap(err, "cannot start a quota rescan of %s", f.root.Name())
}

// Limit sets the most bytes that group may hold.
func (f *FS) Limit(group, bytes uint64) error {
	const maxRfer = 1
	args := limitArgs{id: group, flags: maxRfer, maxRfer: bytes}
	return Wrap(call(f.root, iocQgroupLimit, &args), "cannot limit quota group %d/%d of %s", GroupLevel(group), GroupNumber(group), f.root.Name())
}

// CreateGroup makes a quota group above level 0; one that is there is no error.
func (f *FS) CreateGroup(group uint64) error {
	err := call(f.root, iocQgroupCreate, &groupArgs{create: 1, id: group})
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return Wrap(err, "cannot create quota group %d/%d of %s", GroupLevel(group), GroupNumber(group), f.root.Name())
}

// RemoveGroup removes a quota group. NotExist when there is none, Busy while
// the subvolume of it is there or other groups are in it.
func (f *FS) RemoveGroup(group uint64) error {
	err := call(f.root, iocQgroupCreate, &groupArgs{id: group})
	return Wrap(err, "cannot remove quota group %d/%d of %s", GroupLevel(group), GroupNumber(group), f.root.Name())
}

// Join puts a quota group into one of a higher level; being in it is no error.
func (f *FS) Join(group, parent uint64) error {
	err := call(f.root, iocQgroupAssign, &assignArgs{assign: 1, src: group, dst: parent})
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return Wrap(err, "cannot put quota group %d/%d of %s into another", GroupLevel(group), GroupNumber(group), f.root.Name())
}

// Group is a quota group with its counts in bytes.
type Group struct {
	ID uint64
	// Used is its bytes in use, Max its limit; 0 for none.
	Used uint64
	Max  uint64
}

// ReadGroup reads one quota group. NotExist when there is none.
func (f *FS) ReadGroup(id uint64) (Group, error) {
	groups := map[uint64]*Group{}
	err := f.searchGroups(groups, keyQgroupInfo, id, id)
	if err == nil {
		err = f.searchGroups(groups, keyQgroupLimit, id, id)
	}
	if err == nil && len(groups) == 0 {
		err = unix.ENOENT
	}
	if err != nil {
		return Group{}, Wrap(err, "cannot read quota group %d/%d of %s", GroupLevel(id), GroupNumber(id), f.root.Name())
	}
	return *groups[id], nil
}

// Groups reads all quota groups.
func (f *FS) Groups() (map[uint64]*Group, error) {
	groups := map[uint64]*Group{}
	err := f.searchGroups(groups, keyQgroupInfo, 0, math.MaxUint64)
	if err == nil {
		err = f.searchGroups(groups, keyQgroupLimit, 0, math.MaxUint64)
	}
	return groups, Wrap(err, "cannot read the quota groups of %s", f.root.Name())
}

// searchGroups adds the numbers in items of that kind to groups.
func (f *FS) searchGroups(groups map[uint64]*Group, kind uint32, from, to uint64) error {
	s := slice{tree: quotaTree, minType: kind, maxType: kind, minOffset: from, maxOffset: to}
	return f.search(s, func(i item) {
		g := groups[i.offset]
		if g == nil {
			g = &Group{ID: i.offset}
			groups[i.offset] = g
		}
		// Both items have the number that counts in their second word.
		switch {
		case len(i.data) < 16:
		case i.kind == keyQgroupInfo:
			g.Used = binary.LittleEndian.Uint64(i.data[8:])
		default:
			g.Max = binary.LittleEndian.Uint64(i.data[8:])
		}
	})
}

// Members are the quota groups in group.
func (f *FS) Members(group uint64) ([]uint64, error) {
	var members []uint64
	err := f.search(slice{
		tree: quotaTree, minType: keyQgroupRelation, maxType: keyQgroupRelation,
		minObject: group, maxObject: group, maxOffset: group - 1,
	}, func(i item) { members = append(members, i.offset) })
	return members, Wrap(err, "cannot read the members of quota group %d/%d of %s", GroupLevel(group), GroupNumber(group), f.root.Name())
}

// Membership says that a quota group is in another one.
type Membership struct{ Group, In uint64 }

// Memberships are those of all quota groups.
func (f *FS) Memberships() (map[Membership]bool, error) {
	all := map[Membership]bool{}
	err := f.search(slice{
		tree: quotaTree, minType: keyQgroupRelation, maxType: keyQgroupRelation, maxObject: math.MaxUint64, maxOffset: math.MaxUint64,
	}, func(i item) {
		if i.offset < i.object { // each is there in both directions
			all[Membership{Group: i.offset, In: i.object}] = true
		}
	})
	return all, Wrap(err, "cannot read which quota groups of %s are in others", f.root.Name())
}
