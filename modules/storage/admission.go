package storage

import (
	"math"
	"slices"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// keep is what of a pool's size isn't promised to anybody, so that the last
// promised byte can be written: what mkfs.btrfs sets aside for metadata, twice
// (measured: a tenth up to 2 GiB, then 512 MiB, from 50 GiB on 2 GiB), one
// hundredth for checksums and extents, and 64 MiB for the rest.
func keep(total uint64) uint64 {
	metadata := max(64*mib, total/10)
	switch {
	case total >= 50*gib:
		metadata = 2 * gib
	case total > 2*gib:
		metadata = 512 * mib
	}
	return 64*mib + metadata + total/100
}

// offered is what of a pool's size can be promised.
func offered(total uint64) uint64 { return subSizes(total, keep(total)) }

func addSizes(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

func subSizes(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}

// candidate is a pool with what can still be promised on it.
type candidate struct {
	pool *pool
	free uint64
}

// choose picks the pool with the most room among those of the types, the first
// type that has a pool with enough winning. what names the thing in errors.
func (m *Module) choose(what string, size uint64, types ...workload.DeviceType) (*pool, error) {
	var broken error
	var all []candidate
	for _, t := range types {
		candidates, err := m.candidates(t)
		if err != nil {
			broken = err
		}
		for _, c := range candidates {
			if c.free >= size {
				return c.pool, nil
			}
		}
		all = append(all, candidates...)
	}
	switch {
	case len(all) > 0:
		return nil, noSpace(what, size, all)
	case broken != nil:
		return nil, node.Errorf(node.Transient, "cannot create %s: %v", what, broken)
	}
	return nil, node.Errorf(node.Refused, "cannot create %s: disk type %s: this node offers %s", what, join(types), m.offers())
}

// candidates are the pools of a type that work, the one with the most room
// first. The error says why one doesn't work.
func (m *Module) candidates(t workload.DeviceType) (list []candidate, broken error) {
	for _, p := range m.pools {
		if p.diskType != t {
			continue
		}
		status, err := p.status()
		if err != nil {
			broken = err
			continue
		}
		list = append(list, candidate{pool: p, free: subSizes(status.Offered, status.Reserved)})
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

func noSpace(what string, size uint64, all []candidate) error {
	var sum, most uint64
	var types []workload.DeviceType
	for _, c := range all {
		sum, most = addSizes(sum, c.free), max(most, c.free)
		if !slices.Contains(types, c.pool.diskType) {
			types = append(types, c.pool.diskType)
		}
	}
	hint := ""
	if len(all) > 1 {
		hint = ", the most on one is " + FormatSize(most)
	}
	return node.Errorf(node.NoSpace, "cannot create %s: needs %s, free are %s on %s pools%s", what, FormatSize(size), FormatSize(sum), join(types), hint)
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
