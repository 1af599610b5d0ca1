package admit

import (
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Offer is what a node has.
type Offer struct {
	// Total is what there is in all, used or not, of what is whole.
	Total provisioner.Demand
	// Whole is the most of each kind of disk that is free in one piece, on one pool;
	// nil where that isn't told.
	Whole *provisioner.Demand
	// Held is what of the disks is held for workloads that don't count, by ID: who
	// comes back takes it over.
	Held map[string]provisioner.Demand
	// Broken are the pools that can't be used now.
	Broken []BrokenPool
}

// BrokenPool is a pool that can't be used now. SSD and HDD are which kinds of
// disk it may have had: both where that isn't known.
type BrokenPool struct {
	Name     string
	Cause    string
	SSD, HDD bool
}

// patient keeps a broken pool from being taken for a full one: what has no room
// now may have it when the pool is whole again.
func (o Offer) patient(u unit, full error) error {
	for _, b := range o.Broken {
		if u.on(b) {
			return node.Errorf(node.Transient, "%v; pool %s is broken now: %s", full, b.Name, b.Cause)
		}
	}
	return full
}
