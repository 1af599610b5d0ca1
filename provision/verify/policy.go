package verify

import (
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Defaults of a Policy.
const (
	DefaultMaxDuration = 365 * 24 * time.Hour
	DefaultMaxFuture   = 10 * time.Minute
)

// Policy decides which reservations this node accepts.
type Policy struct {
	// NodeID is this node's.
	NodeID string
	// AcceptV1 accepts the seed's signatures, which cover no dates.
	AcceptV1 bool
	// MaxDuration bounds a reservation's duration, and a renewal counted from now.
	MaxDuration time.Duration
	// MaxFuture is how far ahead of the node's clock the user's may be.
	MaxFuture time.Duration
	// Birth is when the node's store was made, zero while unknown. Reservations created
	// earlier are accepted only when AcceptsOlder.
	Birth        time.Time
	AcceptsOlder bool
}

// Time is the time, and how far it can be trusted.
type Time struct {
	Now     time.Time
	Trusted bool
	// Proven is whether it is good enough for irreversible decisions, such as refusing a
	// renewal: see clock.Remove.
	Proven bool
	// Floor is a time that has certainly passed.
	Floor time.Time
}

// Acceptable checks whether an authentic reservation may be accepted: Invalid or Refused
// when it never can be, Transient when only the time isn't known well enough. A renewal in
// it must have been checked.
func (p Policy) Acceptable(r *workload.Reservation, at Time) error {
	if r.DocumentVersion() == workload.V1 && !p.AcceptV1 {
		return node.Errorf(node.Refused, "cannot accept version: it is 1, must be 2 on this node (its operator may set accept-signature-v1)")
	}
	if r.Duration <= 0 {
		return node.Errorf(node.Invalid, "cannot accept duration: it is %s, must be more than 0s", r.Duration)
	}
	if r.Duration > p.MaxDuration {
		return node.Errorf(node.Refused, "cannot accept duration: it is %s, must be at most %s on this node", r.Duration, p.MaxDuration)
	}
	if latest := at.Now.Add(p.MaxFuture); r.Created.After(latest) {
		return at.refuse("cannot accept created: it is %s, must be at most %s (the node's clock and %s)",
			stamp(r.Created), stamp(latest), p.MaxFuture)
	}
	if end := p.lastArrival(r); !at.Now.Before(end) {
		return at.refuse("cannot accept reservation: it expired at %s, before it arrived", stamp(end))
	}
	return p.bornBefore(r)
}

// lastArrival is until when r may still be accepted. A renewal prolongs a workload that the
// node has. It doesn't bring back one that the node may have had, ended and forgotten
// since: a tombstone is kept until the end that the node knew. Only a reservation older
// than the store, and accepted all the same, may arrive until its renewed end: its
// tombstone is kept for as long as the store accepts it (lifecycle.Facts.Returns). So are
// tombstones of version 1, whose dates aren't signed.
func (p Policy) lastArrival(r *workload.Reservation) time.Time {
	if p.AcceptsOlder && !r.Created.After(p.Birth) {
		return r.Expires()
	}
	return r.Created.Add(r.Duration)
}

// bornBefore refuses reservations that the node may have had, and ended, before it lost its store.
func (p Policy) bornBefore(r *workload.Reservation) error {
	switch {
	case p.AcceptsOlder:
		return nil
	case p.Birth.IsZero():
		return node.Errorf(node.Transient, "cannot accept reservation: the node's store is new, and the time of its birth isn't known yet")
	case r.DocumentVersion() == workload.V1:
		return older(node.Errorf(node.Refused, "cannot accept version: it is 1, whose date isn't signed, and the node's store is new"))
	case !r.Created.After(p.Birth):
		return older(node.Errorf(node.Refused, "cannot accept created: it is %s, must be after %s, when the node's store was made",
			stamp(r.Created), stamp(p.Birth)))
	}
	return nil
}

// Renewal checks that r's renewal is its user's and may be followed now. While the time
// can't be trusted, the limit counts from Floor, or from Created if that is later.
func (p Policy) Renewal(r *workload.Reservation, at Time) error {
	if err := workload.VerifyRenewal(r); err != nil {
		return node.WithKind(node.Invalid, err)
	}
	now := at.Now
	if !at.Trusted {
		now = at.Floor
		if r.Created.After(now) {
			now = r.Created
		}
	}
	if latest := now.Add(p.MaxDuration); r.Renewal.Expires.After(latest) {
		// A refused renewal lets the data go at the old end: only a proven time may refuse it.
		return Time{Trusted: at.Proven}.refuse("cannot accept renewal.expires: it is %s, must be at most %s on this node", stamp(r.Renewal.Expires), stamp(latest))
	}
	return nil
}

// refuse returns Refused when the time is trusted, Transient otherwise.
func (t Time) refuse(format string, args ...any) error {
	if t.Trusted {
		return node.Errorf(node.Refused, format, args...)
	}
	return node.Errorf(node.Transient, format+"; the node's clock can't be trusted now", args...)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
