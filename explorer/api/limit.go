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

// maxLimited is how many keys one generation of limits remembers. A key that
// is forgotten starts with a full burst: who makes new keys is held by the
// limit of addresses.
const maxLimited = 65536

// limits are token buckets by name, in bounded memory: two generations, of
// which the older is dropped when the newer is full.
type limits struct {
	rate  rate.Limit
	burst int

	mu       sync.Mutex
	now, old map[string]*rate.Limiter
}

func newLimits(perSecond float64, burst int) *limits {
	return &limits{rate: rate.Limit(perSecond), burst: burst, now: map[string]*rate.Limiter{}}
}

// perDay are limits of a limit.Limit of a source a day, of which a 16th may come at
// once, at least as many as atOnce; none where the operator has no limits of addresses.
func (p Policy) perDay(l limit.Limit, atOnce int64) *limits {
	if p.AddressRate == 0 {
		return newLimits(0, 0)
	}
	return newLimits(float64(l.Each)/(24*3600), int(max(l.Each/16, atOnce)))
}

// wait is how long name must wait before its next request; 0 when it may go on.
func (l *limits) wait(name string, at time.Time) time.Duration { return l.waitN(name, at, 1) }

// waitN is wait for n at once, at most the burst.
func (l *limits) waitN(name string, at time.Time, n int) time.Duration {
	if l.rate == 0 {
		return 0
	}
	r := l.of(name).ReserveN(at, n)
	d := r.DelayFrom(at)
	if d > 0 {
		r.CancelAt(at)
	}
	return d
}

func (l *limits) of(name string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b, ok := l.now[name]; ok {
		return b
	}
	b, ok := l.old[name]
	if !ok {
		b = rate.NewLimiter(l.rate, l.burst)
	}
	if len(l.now) >= maxLimited {
		l.now, l.old = map[string]*rate.Limiter{}, l.now
	}
	l.now[name] = b
	return b
}

// limitAddress counts the request against where it came from.
func (s *Server) limitAddress(r *http.Request) error {
	return s.limited("address", s.addresses.wait(source(r), time.Now()))
}

// limitKey counts the request against the key that signed it. It comes after
// the signature's check, so that nobody uses up another's limit.
func (s *Server) limitKey(id string) error {
	return s.limited("key", s.keys.wait(id, time.Now()))
}

// limitResult counts a result against the node that signed it, or where it came
// from: nobody uses up a node's limit by what it didn't sign.
func (s *Server) limitResult(r *http.Request, in *workload.Result, nodeID string) error {
	name := nodeID
	if len(in.Signature) == 0 {
		name = source(r)
	}
	return s.limited("result", s.results.wait(name, time.Now()))
}

// limitNew counts n of something new against where it came from.
func (s *Server) limitNew(r *http.Request, l limit.Limit, of *limits, n int) error {
	d := of.waitN(source(r), time.Now(), n)
	if d > 0 {
		l.Reached()
	}
	return s.limited(l.Name, d)
}

func (s *Server) limited(by string, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	s.metrics.limited.WithLabelValues(by).Inc()
	return &tooMany{by: by, after: time.Duration(math.Ceil(d.Seconds())) * time.Second}
}
