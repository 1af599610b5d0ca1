package clock

import "time"

// Mark is the durable record of time, from which the agent continues after its
// restart or the machine's. The zero Mark is that of a node that never recorded
// one.
type Mark struct {
	// Time is the last trusted time, zero when none ever was. The machine had then
	// been up for Boot (CLOCK_BOOTTIME, nanoseconds) in the boot BootID. Within one
	// boot this shows whether the wall clock has jumped since.
	Time   time.Time     `json:"time"`
	Boot   time.Duration `json:"boot"`
	BootID string        `json:"boot_id"`
	// Source is the source of Time. It is empty in marks from before sources were
	// recorded: these may be the explorer's word.
	Source Source `json:"source,omitempty"`
	// Confirmed is the last time, on the scale of Boot, at which Source was known to
	// be good for level Remove: Holdover counts from it.
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

// Uptime is the node's uptime, summed over its reboots.
type Uptime struct {
	// Total is in nanoseconds: never more than the time since the first mark and the
	// machine's uptime before it.
	Total time.Duration `json:"total"`
	// Boot and BootID are the CLOCK_BOOTTIME, nanoseconds, and the boot at which
	// the uptime was Total.
	Boot   time.Duration `json:"boot"`
	BootID string        `json:"boot_id"`
}

// before is the node's uptime when the present boot began: the present uptime is
// that and now, the time since boot. Time that the agent doesn't know to have
// passed doesn't count:
//   - in the boot of the record: all since the record, which may be no time;
//   - in another boot: the whole of it;
//   - where either boot has no known ID, the machine may have been up already
//     at the record: only time that passes from now on.
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
