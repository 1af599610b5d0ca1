package admit

import (
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Offer is a node's capacity.
type Offer struct {
	// Total is the capacity in all, used or not, without broken pools.
	Total provisioner.Demand
	// Whole is the most of each kind of disk that is free on one pool; nil where unknown.
	Whole *provisioner.Demand
	// Held is the disk space held for workloads that don't count, by ID: a workload that
	// comes back takes its space over.
	Held map[string]provisioner.Demand
	// Broken are the pools that can't be used now.
	Broken []BrokenPool
}

// BrokenPool is a pool that can't be used now. SSD and HDD are the kinds of disk that it
// may have had: both where unknown.
type BrokenPool struct {
	Name     string
	Cause    string
	SSD, HDD bool
}

// patient makes a lack of room Transient where a broken pool may have the room once it is whole again.
func (o Offer) patient(u unit, full error) error {
	for _, b := range o.Broken {
		if u.on(b) {
			return node.Errorf(node.Transient, "%v; pool %s is broken now: %s", full, b.Name, b.Cause)
		}
	}
	return full
}
