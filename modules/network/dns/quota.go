package dns

import (
	"sync/atomic"

	"golang.org/x/time/rate"
)

// quota holds one namespace to its Limits, and counts its queries.
type quota struct {
	limiter *rate.Limiter
	// forwards and connections hold a slot for each query or connection in progress.
	forwards    chan struct{}
	connections chan struct{}

	queries, failures, dropped atomic.Uint64
}

func newQuota(l Limits) *quota {
	return &quota{
		limiter:  rate.NewLimiter(rate.Limit(l.Rate), l.Rate),
		forwards: make(chan struct{}, l.Forwards), connections: make(chan struct{}, l.Connections),
	}
}

// admit counts a query and reports whether it is within the rate.
func (q *quota) admit() bool {
	q.queries.Add(1)
	if q.limiter.Allow() {
		return true
	}
	q.dropped.Add(1)
	return false
}

// forward takes a slot for a query that is to be forwarded; forwarded gives it back.
func (q *quota) forward() bool {
	select {
	case q.forwards <- struct{}{}:
		return true
	default:
		return false
	}
}

func (q *quota) forwarded() { <-q.forwards }

// connect takes a slot for a TCP connection, and counts one that gets none;
// disconnect gives it back.
func (q *quota) connect() bool {
	select {
	case q.connections <- struct{}{}:
		return true
	default:
		q.dropped.Add(1)
		return false
	}
}

func (q *quota) disconnect() { <-q.connections }
