package network

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/supervise"
)

// endpointLookups is how many names of endpoints are looked up at a time. What is
// beyond it waits its turn, that of its user.
var endpointLookups = limit.Limit{Name: "endpoint-lookups", Per: "user", Each: 4, Total: 64}

// lookupWithin bounds one lookup: a name whose server never answers holds its place
// no longer. It is looked up again.
const lookupWithin = 5 * time.Second

// lookup is one name to look up: that of a network's peer.
type lookup struct {
	network  string
	key      wireguard.Key
	endpoint string
}

// lookups looks names of endpoints up in the background. What waits for the outside
// here holds up nothing but what the same user has waiting beside it.
type lookups struct {
	ctx       context.Context //nolint:containedctx // it ends what was begun in the background
	endpoints Endpoints
	log       zerolog.Logger
	// found is told of a network for which there is something to take.
	found func(network string)

	turns *limit.Turns[lookup]
	going sync.WaitGroup

	mu sync.Mutex
	// asked are those that wait or are being looked up.
	asked  map[lookup]bool
	answer map[string]map[lookup]netip.AddrPort
	closed bool
}

func newLookups(ctx context.Context, c Config, found func(network string)) *lookups {
	return &lookups{
		ctx: ctx, endpoints: c.Endpoints, log: c.Log, found: found, turns: limit.NewTurns[lookup](endpointLookups),
		asked: map[lookup]bool{}, answer: map[string]map[lookup]netip.AddrPort{},
	}
}

// add has names looked up as that user's, each once however often it is asked for.
func (l *lookups) add(user string, all ...lookup) {
	l.mu.Lock()
	for _, one := range all {
		if l.closed || l.asked[one] {
			continue
		}
		l.asked[one] = true
		l.going.Add(1)
		l.turns.Add(user, one)
	}
	l.mu.Unlock()
	l.pump()
}

// pump begins what may begin.
func (l *lookups) pump() {
	for {
		one, done, ok := l.turns.Next()
		if !ok {
			return
		}
		go supervise.Do(l.log, "resolve", func() {
			defer l.going.Done()
			defer l.pump()
			defer done()
			l.lookUp(one)
		})
	}
}

func (l *lookups) lookUp(one lookup) {
	ctx, cancel := context.WithTimeout(l.ctx, lookupWithin)
	defer cancel()
	var at netip.AddrPort
	err := l.ctx.Err()
	if err == nil {
		err = supervise.Guard(l.log, "resolve", func() (err error) {
			at, err = l.endpoints.Resolve(ctx, one.endpoint)
			return err
		})
	}
	l.mu.Lock()
	delete(l.asked, one)
	if err == nil {
		if l.answer[one.network] == nil {
			l.answer[one.network] = map[lookup]netip.AddrPort{}
		}
		l.answer[one.network][one] = at
	}
	l.mu.Unlock()
	switch {
	case l.ctx.Err() != nil:
	case err != nil:
		l.log.Warn().Err(err).Str("network", one.network).Str("type", "network").Str("step", "resolve").
			Msg("a peer's endpoint can't be used now: it is looked up again")
	default:
		l.found(one.network)
	}
}

// take returns what a network's names have resolved to since it was last asked.
func (l *lookups) take(network string) map[lookup]netip.AddrPort {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.answer[network]
	delete(l.answer, network)
	return found
}

// wait returns once nothing is being looked up.
func (l *lookups) wait() { l.going.Wait() }

// close waits for what is being looked up, whose context has ended: nothing more is.
func (l *lookups) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.wait()
}
