package tunnel

import (
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// The limits of tunnels and their users. Keys are free, so users without a workload at the node
// (strangers) are counted by their source, and have places apart from those of owners.
var (
	tunnelSources = limit.Limit{Name: "tunnels", Per: "source", Each: 1024, Total: 10000}
	owners        = limit.Limit{Name: "tunnel-owners", Per: "user", Each: 32, Total: 1536}
	ownerSources  = limit.Limit{Name: "tunnel-owner-sources", Per: "source", Each: 256}
	strangers     = limit.Limit{Name: "tunnel-strangers", Per: "source", Each: 32, Total: 256}
	nodeOwners    = limit.Limit{Name: "tunnel-node-owners", Per: "user", Each: 24, Total: 96}
	nodeStrangers = limit.Limit{Name: "tunnel-node-strangers", Per: "source", Each: 8, Total: 32}
)

// Limits bound the tunnels of an explorer.
type Limits struct {
	// Tunnels bounds the open tunnels.
	Tunnels limit.Limit
	// Owners, OwnerSources and Strangers bound connections through all tunnels; NodeOwners and
	// NodeStrangers those through one.
	Owners, OwnerSources, Strangers limit.Limit
	NodeOwners, NodeStrangers       limit.Limit
	// Idle is how long a connection may carry nothing: both ends send a sign of life every 15
	// seconds.
	Idle time.Duration
}

// DefaultLimits are the limits without the operator's settings.
func DefaultLimits() Limits {
	return Limits{
		Tunnels: tunnelSources, Owners: owners, OwnerSources: ownerSources, Strangers: strangers,
		NodeOwners: nodeOwners, NodeStrangers: nodeStrangers, Idle: 5 * time.Minute,
	}
}

// Caller is the user that opens a connection through a tunnel.
type Caller struct {
	// User is the key that signed the request, Source its origin (see limit.Source).
	User, Source string
	// Owner: the user has a workload at the node.
	Owner bool
}

// places are the places of all tunnels.
type places struct {
	tunnels, owners, strangers *limit.Places
	sources                    *limit.Shares
}

// nodePlaces are the places of one tunnel.
type nodePlaces struct {
	owners, strangers *limit.Places
}

func (l Limits) places() places {
	return places{
		tunnels: l.Tunnels.Places(false), owners: l.Owners.Places(false), strangers: l.Strangers.Places(true), sources: l.OwnerSources.Shares(),
	}
}

func (l Limits) nodePlaces() nodePlaces {
	return nodePlaces{owners: l.NodeOwners.Places(false), strangers: l.NodeStrangers.Places(true)}
}

// enter takes a place of the node's tunnel and one of all. An owner may displace an owner that has
// more connections; among strangers the oldest goes. end is called for a connection that loses its
// place.
func (p places) enter(at nodePlaces, by Caller, end func()) (leave func(), err error) {
	if !by.Owner {
		return takeBoth(by.Source, end, p.strangers, at.strangers)
	}
	source, err := p.sources.Take(by.Source, 1)
	if err != nil {
		return nil, busy(err)
	}
	both, err := takeBoth(by.User, end, p.owners, at.owners)
	if err != nil {
		source()
		return nil, err
	}
	return func() { both(); source() }, nil
}

func takeBoth(key string, end func(), first, second *limit.Places) (func(), error) {
	leave, err := first.Take(key, end)
	if err != nil {
		return nil, busy(err)
	}
	also, err := second.Take(key, end)
	if err != nil {
		leave()
		return nil, busy(err)
	}
	return func() { leave(); also() }, nil
}

func busy(err error) error {
	return node.WithKind(node.Busy, errors.Wrap(err, "cannot carry a connection"))
}
