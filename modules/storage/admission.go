package storage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/saturate"
	"github.com/croft-edge/croft/pkg/workload"
)

// The part of a pool that is never promised, so that the last promised byte can
// be written. A quota counts an extent's bytes once, wherever they lie; beside them
// btrfs writes trees that count for no quota.
const (
	// slack is for structures of a fixed size: groups of blocks, the root trees; bytes.
	slack = 64 * bytesize.MiB
	// uncounted is btrfs's own writes as a part of the promised space: a
	// block of 4 KiB by itself has 87 bytes in the extent tree and 29 in the
	// checksums', in leaves that may be half full after many removals. That is a
	// seventeenth; a third of it was the most that was measured.
	uncounted = 16
	// mostReserve is the most that the kernel sets aside, beside it, for rewriting
	// those trees: as much as they hold, and never more; bytes.
	mostReserve = 512 * bytesize.MiB
)

// offered is how much of a pool's size can be promised: the most for which this still
// fits, copies being how often metadata is written,
//
//	promised, in each of the ways that it can be written at once
//	+ copies * (promised/uncounted + min(promised/uncounted, mostReserve) + slack)
//
// In mixed groups of blocks each byte has its place, as data or as metadata. Else
// the promised bytes may all have been data once, scattered so that no group of
// blocks is freed, when all of them are metadata.
func offered(space btrfs.Space) uint64 {
	copies := max(space.Layout.Copies, 1)
	ways := copies
	if !space.Layout.Mixed {
		ways++
	}
	room := saturate.Sub(space.Total, copies*slack)
	// Either the reserve is as large as the trees, or it is the most.
	small := room / (ways*uncounted + 2*copies) * uncounted
	large := saturate.Sub(room, copies*mostReserve) / (ways*uncounted + copies) * uncounted
	return max(small, large)
}

// candidate is a pool with the space that can still be promised on it.
type candidate struct {
	pool *pool
	free uint64
}

// wish is a request for room.
type wish struct {
	// what names the thing in errors.
	what string
	size uint64
	// pool is the only one that is considered; empty for all.
	pool  string
	types []workload.DeviceType
}

// choose picks the pool with the most room among those of the wish's types, the
// first type that has a pool with enough winning.
func (m *Module) choose(w wish) (*pool, error) {
	if err := m.checkPool(w); err != nil {
		return nil, err
	}
	var broken error
	var all []candidate
	for _, t := range w.types {
		candidates, err := m.candidates(t, w.pool)
		if err != nil {
			broken = err
		}
		for _, c := range candidates {
			if c.free >= w.size {
				return c.pool, nil
			}
		}
		all = append(all, candidates...)
	}
	switch {
	case len(all) > 0:
		return nil, noSpace(w, all)
	case broken != nil:
		return nil, node.Errorf(node.Transient, "cannot create %s: %v", w.what, broken)
	}
	return nil, node.Errorf(node.Refused, "cannot create %s: disk type %s: this node offers %s", w.what, join(w.types), m.offers())
}

// checkPool refuses a wish for a pool that isn't there or is of another type.
func (m *Module) checkPool(w wish) error {
	if w.pool == "" {
		return nil
	}
	var names []string
	for _, p := range m.pools {
		names = append(names, p.name)
		if p.name != w.pool {
			continue
		}
		if p.diskType == "" {
			// It is one that the configuration doesn't name any more.
			return node.Errorf(node.Transient, "cannot create %s: %v", w.what, p.health())
		}
		if !slices.Contains(w.types, p.diskType) {
			return node.Errorf(node.Refused, "cannot create %s: pool %s is of type %s, asked for is %s", w.what, p.name, p.diskType, join(w.types))
		}
		return nil
	}
	return node.Errorf(node.Refused, "cannot create %s: pool is %q, this node has %s", w.what, w.pool, cmp.Or(strings.Join(names, ", "), "none"))
}

// candidates are the pools of a type that work, the one with the most room
// first, or only the one of that name. The error says why one doesn't work.
func (m *Module) candidates(t workload.DeviceType, only string) (list []candidate, broken error) {
	for _, p := range m.pools {
		if p.diskType != t || only != "" && p.name != only {
			continue
		}
		status, err := p.status()
		if err != nil {
			broken = err
			continue
		}
		list = append(list, candidate{pool: p, free: saturate.Sub(status.Offered, status.Reserved)})
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		switch {
		case a.free > b.free:
			return -1
		case a.free < b.free:
			return 1
		}
		return 0
	})
	return list, broken
}

func noSpace(w wish, all []candidate) error {
	var sum, most uint64
	var types []workload.DeviceType
	for _, c := range all {
		sum, most = saturate.Add(sum, c.free), max(most, c.free)
		if !slices.Contains(types, c.pool.diskType) {
			types = append(types, c.pool.diskType)
		}
	}
	if w.pool != "" {
		return node.Errorf(node.NoSpace, "cannot create %s: needs %s, free are %s on pool %s", w.what, bytesize.Format(w.size), bytesize.Format(sum), w.pool)
	}
	hint := ""
	if len(all) > 1 {
		hint = ", the most on one is " + bytesize.Format(most)
	}
	return node.Errorf(node.NoSpace, "cannot create %s: needs %s, free are %s on %s pools%s", w.what, bytesize.Format(w.size), bytesize.Format(sum), join(types), hint)
}

// offers names the types of all pools, broken ones too.
func (m *Module) offers() string {
	var types []workload.DeviceType
	for _, p := range m.pools {
		if p.diskType != "" && !slices.Contains(types, p.diskType) {
			types = append(types, p.diskType)
		}
	}
	if len(types) == 0 {
		return "none"
	}
	return join(types)
}

func join(types []workload.DeviceType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	slices.Sort(names)
	return strings.Join(names, " and ")
}
