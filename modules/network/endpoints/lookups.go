// Package endpoints resolves the endpoints of tunnels' peers. An endpoint that is an
// address is judged at once; one that is a name is looked up in the background, so
// that no network waits for its peers' names, nor one user for another's.
//
// It asks a Resolver, and decides neither where tunnels may lead nor when a name is
// looked up again.
package endpoints

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/network/resource"
	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// Resolver judges and resolves the endpoints that tenants name.
type Resolver interface {
	// Resolve returns an allowed address of "host:port". Invalid when it is malformed,
	// Refused when its addresses aren't allowed, Transient when the name can't be
	// resolved now.
	Resolve(ctx context.Context, address string) (netip.AddrPort, error)
	// Literal is Resolve of an address that isn't a name, without asking anybody;
	// the zero AddrPort for a name.
	Literal(address string) (netip.AddrPort, error)
}

// Limit bounds the names that are looked up at a time. The others wait for their
// user's turn.
var Limit = limit.Limit{Name: "endpoint-lookups", Per: "user", Each: 4, Total: 64}

// lookupWithin bounds one lookup, so that a name server that never answers frees the
// slot. The name is looked up again later.
const lookupWithin = 5 * time.Second

// IsName reports whether an endpoint's host is a name.
func IsName(endpoint string) bool {
	if endpoint == "" {
		return false
	}
	_, err := netip.ParseAddrPort(endpoint)
	return err != nil
}

// Literals are the addresses of the peers' endpoints that aren't names.
func Literals(r Resolver, p resource.Plan) (resource.Endpoints, error) {
	out := resource.Endpoints{}
	for i, one := range p.Peers {
		if one.Endpoint == "" {
			continue
		}
		at, err := r.Literal(one.Endpoint)
		if err != nil {
			return nil, node.Errorf(node.KindOf(err), "cannot make network %s: endpoint of peer %d: %w", p.Name(), i, err)
		}
		if at.IsValid() {
			out[one.Key.String()] = at
		}
	}
	return out, nil
}

// lookup is one name to look up: that of a network's peer.
type lookup struct {
	network  string
	key      wireguard.Key
	endpoint string
}

// named are the lookups of those of p's peers that have a name.
func named(p resource.Plan) (out []lookup) {
	for _, one := range p.Peers {
		if IsName(one.Endpoint) {
			out = append(out, lookup{network: p.Spec.ID, key: one.Key, endpoint: one.Endpoint})
		}
	}
	return out
}

// Lookups looks names up in the background. New makes it.
type Lookups struct {
	ctx      context.Context //nolint:containedctx // it ends the lookups in the background
	resolver Resolver
	log      zerolog.Logger
	// found is called with the ID of a network that has new answers.
	found func(network string)

	turns   *limit.Turns[lookup]
	running sync.WaitGroup

	mu sync.Mutex
	// pending are those that wait or are being looked up.
	pending map[lookup]bool
	answers map[string]map[lookup]netip.AddrPort
	closed  bool
}

// New makes it. found is called with the ID of a network for which Apply has answers;
// ctx ends the lookups in progress.
func New(ctx context.Context, r Resolver, log zerolog.Logger, found func(network string)) *Lookups {
	return &Lookups{
		ctx: ctx, resolver: r, log: log, found: found, turns: limit.NewTurns[lookup](Limit),
		pending: map[lookup]bool{}, answers: map[string]map[lookup]netip.AddrPort{},
	}
}

// Add looks up the names of a plan's peers, as its user. A name that is pending
// already isn't added again.
func (l *Lookups) Add(p resource.Plan) {
	l.mu.Lock()
	for _, one := range named(p) {
		if l.closed || l.pending[one] {
			continue
		}
		l.pending[one] = true
		l.running.Add(1)
		l.turns.Add(p.Spec.User, one)
	}
	l.mu.Unlock()
	l.pump()
}

// pump starts the lookups that have their turn.
func (l *Lookups) pump() {
	for {
		one, done, ok := l.turns.Next()
		if !ok {
			return
		}
		go supervise.Do(l.log, "resolve", func() {
			defer l.running.Done()
			defer l.pump()
			defer done()
			l.lookUp(one)
		})
	}
}

func (l *Lookups) lookUp(one lookup) {
	ctx, cancel := context.WithTimeout(l.ctx, lookupWithin)
	defer cancel()
	var at netip.AddrPort
	err := l.ctx.Err()
	if err == nil {
		err = supervise.Guard(l.log, "resolve", func() (err error) {
			at, err = l.resolver.Resolve(ctx, one.endpoint)
			return err
		})
	}
	l.mu.Lock()
	delete(l.pending, one)
	if err == nil {
		if l.answers[one.network] == nil {
			l.answers[one.network] = map[lookup]netip.AddrPort{}
		}
		l.answers[one.network][one] = at
	}
	l.mu.Unlock()
	switch {
	case l.ctx.Err() != nil:
	case err != nil:
		l.log.Warn().Str("type", "network").Str("step", "resolve").Err(err).Str("network", one.network).
			Msg("cannot use a peer's endpoint now: looked up again")
	default:
		l.found(one.network)
	}
}

// Found are the answers for one network since the last Take.
type Found map[lookup]netip.AddrPort

// Take returns the answers for a network since the last call: of several that come
// while the caller is busy, the first call returns all.
func (l *Lookups) Take(network string) Found {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.answers[network]
	delete(l.answers, network)
	return found
}

// Apply notes the answers in n, for the peers that still have the same endpoint. It
// reports whether any address is new.
func (f Found) Apply(n *resource.Network) (changed bool) {
	for _, p := range n.Plan.Peers {
		at, ok := f[lookup{network: n.ID(), key: p.Key, endpoint: p.Endpoint}]
		if !ok || n.Endpoints[p.Key.String()] == at {
			continue
		}
		if n.Endpoints == nil {
			n.Endpoints = resource.Endpoints{}
		}
		n.Endpoints[p.Key.String()] = at
		changed = true
	}
	return changed
}

// Wait returns once no lookup is pending.
func (l *Lookups) Wait() { l.running.Wait() }

// Close waits for the lookups in progress, whose context has ended: none is added
// any more.
func (l *Lookups) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.Wait()
}
