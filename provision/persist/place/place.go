// Package place makes a persist.Provider of places, such as folders and buckets, that only keep bytes: names, frames, checks,
// who is up, and latencies are the same for all of them. It does nothing but by its places.
package place

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
)

// Place keeps bytes by kind and key. Its errors have the kinds of persist.Provider's, it returns soon after its context
// ends, and it may be used from several goroutines. Nothing but Open is called before Open has succeeded.
type Place interface {
	// Open brings the place up for a machine, which it then belongs to. Refused when it is another's. It is called again after
	// the place was down.
	Open(ctx context.Context, machine persist.MachineID) error
	Put(ctx context.Context, kind persist.Kind, key persist.Key, body []byte) error
	// Get returns at most persist.MaxFramed bytes; Invalid when there are more.
	Get(ctx context.Context, kind persist.Kind, key persist.Key) ([]byte, error)
	// Keys lists what there is: the first persist.MostKeys at least, if there are more.
	Keys(ctx context.Context, kind persist.Kind) ([]persist.Key, error)
	// Delete forgives what isn't there. Refused when this object, or none, may be removed.
	Delete(ctx context.Context, kind persist.Kind, key persist.Key) error
}

// Named is a place and the name of its instance: see persist.InstanceName.
type Named struct {
	Name  string
	Place Place
}

// Provider is a persist.Provider on places.
type Provider struct {
	names  []string
	places map[string]*standing
	now    func() time.Time
}

var _ persist.Provider = (*Provider)(nil)

// New makes a provider. now measures latencies; nil is the machine's clock. Invalid when a name is given twice: the same settings
// would make one place two instances.
func New(places []Named, now func() time.Time) (*Provider, error) {
	if now == nil {
		now = time.Now
	}
	p := &Provider{places: map[string]*standing{}, now: now}
	for _, n := range places {
		if p.places[n.Name] != nil {
			return nil, node.Errorf(node.Invalid, "cannot use instance %s: its settings are given twice", n.Name)
		}
		p.names = append(p.names, n.Name)
		p.places[n.Name] = &standing{name: n.Name, place: n.Place}
	}
	return p, nil
}
