// Package refusals counts the reservations that the node hasn't taken, by cause. Anybody can send such, so they make no
// events: the counts are all that there is of most of them.
package refusals

import "sync/atomic"

// Cause is why a reservation wasn't taken.
type Cause string

const (
	// Unreadable is a document that isn't a reservation, or one without a proper ID.
	Unreadable Cause = "unreadable"
	// Forged is one without proof that its user reserved it on this node.
	Forged Cause = "forged"
	// Replayed is one that was taken in under another ID, or whose ID belongs to another one.
	Replayed Cause = "replayed"
	// Refused is its user's, and was judged: this node can't or mustn't provision it.
	Refused Cause = "refused"
)

// Causes are all of them.
func Causes() []Cause { return []Cause{Unreadable, Forged, Replayed, Refused} }

// Counts counts refused reservations since the process began. One that comes again is counted again, unless there is a
// record of its refusal. It is safe for concurrent use. A nil one counts nothing.
type Counts struct {
	unreadable, forged, replayed, refused atomic.Uint64
}

// Add counts one.
func (c *Counts) Add(cause Cause) {
	if c != nil {
		c.of(cause).Add(1)
	}
}

// All are the counts by cause, those that are zero too.
func (c *Counts) All() map[string]uint64 {
	out := map[string]uint64{}
	for _, cause := range Causes() {
		if out[string(cause)] = 0; c != nil {
			out[string(cause)] = c.of(cause).Load()
		}
	}
	return out
}

func (c *Counts) of(cause Cause) *atomic.Uint64 {
	switch cause {
	case Unreadable:
		return &c.unreadable
	case Forged:
		return &c.forged
	case Replayed:
		return &c.replayed
	}
	return &c.refused
}
