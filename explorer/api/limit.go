package api

import (
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
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

// wait is how long name must wait before its next request; 0 when it may go on.
func (l *limits) wait(name string, at time.Time) time.Duration {
	if l.rate == 0 {
		return 0
	}
	r := l.of(name).ReserveN(at, 1)
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
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return s.limited("address", s.addresses.wait(host, time.Now()))
}

// limitKey counts the request against the key that signed it. It comes after
// the signature's check, so that nobody uses up another's limit.
func (s *Server) limitKey(id string) error {
	return s.limited("key", s.keys.wait(id, time.Now()))
}

func (s *Server) limited(by string, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	s.metrics.limited.WithLabelValues(by).Inc()
	return &tooMany{by: by, after: time.Duration(math.Ceil(d.Seconds())) * time.Second}
}
