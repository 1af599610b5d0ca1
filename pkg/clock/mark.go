package clock

import "time"

// Mark is what is recorded of time, so that a restart of the agent or of the
// machine goes on from it. The zero Mark is that of a node that never recorded
// one.
type Mark struct {
	// Time is the last time that was trusted, zero when none ever was. The
	// machine had then been up for Boot (CLOCK_BOOTTIME, nanoseconds) in the boot
	// BootID. Within one boot this tells whether the wall clock has jumped since.
	Time   time.Time     `json:"time"`
	Boot   time.Duration `json:"boot"`
	BootID string        `json:"boot_id"`
	// Source is what vouched for Time. It is empty in marks that were recorded
	// before sources were: these may be the explorer's word.
	Source Source `json:"source,omitempty"`
	// Confirmed is when, on the same scale as Boot, Source was last seen to be
	// good for level Remove: the bound Holdover counts from it.
	Confirmed time.Duration `json:"confirmed,omitempty"`

	// Uptime is recorded with every mark, also while no time is trusted.
	Uptime Uptime `json:"uptime,omitzero"`
	// Floor had certainly passed when the node's uptime was Uptime.Total; zero
	// when no time of level Remove was ever known.
	Floor time.Time `json:"floor,omitzero"`
}

// Vouched reports whether Time is known from more than the word of an explorer
// that the operator hasn't named as a trusted clock.
func (m Mark) Vouched() bool { return !m.Time.IsZero() && m.Source.vouched() }

// sameBoot reports whether Time was recorded in the boot of that ID.
func (m Mark) sameBoot(id string) bool { return id != "" && m.BootID == id }

// Uptime is how long the node had been up, summed over its reboots.
type Uptime struct {
	// Total is nanoseconds: never more than what has passed since the first mark
	// but for what the machine had been up before it.
	Total time.Duration `json:"total"`
	// Boot and BootID are the CLOCK_BOOTTIME, nanoseconds, and the boot at which
	// it was Total.
	Boot   time.Duration `json:"boot"`
	BootID string        `json:"boot_id"`
}

// before is how long the node had been up in all when the present boot began:
// the present uptime is that and the time since boot, which is now. What the
// agent doesn't know to have passed doesn't count:
//   - in the boot of the record: all since the record, which may be no time;
//   - in another boot: the whole of it;
//   - where either boot has no known ID, the machine may have been up already
//     at the record: only what passes from now on.
func (u Uptime) before(now time.Duration, bootID string) time.Duration {
	switch {
	case u == Uptime{}:
		return 0
	case bootID == "" || u.BootID == "":
		return u.Total - now
	case u.BootID == bootID:
		return u.Total - min(u.Boot, now)
	}
	return u.Total
}
