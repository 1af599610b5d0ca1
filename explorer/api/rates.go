package api

import (
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/workload"
)

// maxLimited is the number of keys that one generation of buckets remembers. A forgotten key starts
// with a full burst: new keys are free, but the limit of addresses counts them.
const maxLimited = 65536

// buckets are token buckets by name, in bounded memory: two generations, the older of which is
// dropped when the newer is full.
type buckets struct {
	rate  rate.Limit
	burst int

	mu       sync.Mutex
	now, old map[string]*rate.Limiter
}

func newBuckets(perSecond float64, burst int) *buckets {
	return &buckets{rate: rate.Limit(perSecond), burst: burst, now: map[string]*rate.Limiter{}}
}

// perDay makes buckets for l as a limit per source and day. A sixteenth of it, at least atOnce, may
// come at once; without limits of addresses there is none.
func (p Policy) perDay(l limit.Limit, atOnce int64) *buckets {
	if p.AddressRate == 0 {
		return newBuckets(0, 0)
	}
	return newBuckets(float64(l.Each)/(24*3600), int(max(l.Each/16, atOnce)))
}

// wait is how long name must wait before its next request; 0 when it need not.
func (b *buckets) wait(name string, at time.Time) time.Duration { return b.waitN(name, at, 1) }

// waitN is wait for n at once, at most the burst.
func (b *buckets) waitN(name string, at time.Time, n int) time.Duration {
	if b.rate == 0 {
		return 0
	}
	r := b.of(name).ReserveN(at, n)
	d := r.DelayFrom(at)
	if d > 0 {
		r.CancelAt(at)
	}
	return d
}

func (b *buckets) of(name string) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one, ok := b.now[name]; ok {
		return one
	}
	one, ok := b.old[name]
	if !ok {
		one = rate.NewLimiter(b.rate, b.burst)
	}
	if len(b.now) >= maxLimited {
		b.now, b.old = map[string]*rate.Limiter{}, b.now
	}
	b.now[name] = one
	return one
}

// daily is a limit of new data per source and day.
type daily struct {
	limit   limit.Limit
	buckets *buckets
}

// rates limit requests by key, by node and by source.
type rates struct {
	addresses, keys, results     *buckets
	newBytes, newNodes, newFarms daily
	// refused counts a refusal by the limit's name.
	refused func(by string)
}

func newRates(p Policy, refused func(by string)) *rates {
	return &rates{
		addresses: newBuckets(p.AddressRate, p.AddressBurst), keys: newBuckets(p.KeyRate, p.KeyBurst), results: newBuckets(p.ResultRate, p.ResultBurst),
		newBytes: daily{newBytes, p.perDay(newBytes, MaxBody)},
		newNodes: daily{newNodes, p.perDay(newNodes, newNodes.Each)},
		newFarms: daily{newFarms, p.perDay(newFarms, newFarms.Each)},
		refused:  refused,
	}
}

// address counts the request against its source.
func (l *rates) address(r *http.Request) error {
	return l.limited("address", l.addresses.wait(source(r), time.Now()))
}

// key counts a request against the key that signed it. It is called after the signature's check, so
// that nobody uses up another's limit.
func (l *rates) key(id string) error {
	return l.limited("key", l.keys.wait(id, time.Now()))
}

// result counts a result against the node that signed it, or an unsigned one against its source:
// nobody uses up a node's limit without its key.
func (l *rates) result(r *http.Request, in *workload.Result, nodeID string) error {
	name := nodeID
	if len(in.Signature) == 0 {
		name = source(r)
	}
	return l.limited("result", l.results.wait(name, time.Now()))
}

// brought counts n units of new data against the request's source.
func (l *rates) brought(r *http.Request, of daily, n int) error {
	d := of.buckets.waitN(source(r), time.Now(), n)
	if d > 0 {
		of.limit.Reached()
	}
	return l.limited(of.limit.Name, d)
}

func (l *rates) limited(by string, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	l.refused(by)
	return &tooMany{by: by, after: time.Duration(math.Ceil(d.Seconds())) * time.Second}
}
