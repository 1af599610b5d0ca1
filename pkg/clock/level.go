package clock

import (
	"time"
)

// Level is the use that a time is good for.
type Level int

// The levels. Each includes those before it.
const (
	// None: no date may be compared with it.
	None Level = iota
	// Stop: dates may be judged by it and workloads stopped, for both can be
	// reversed. It is the highest level of a machine's own clock or the explorer's
	// word.
	Stop
	// Remove: irreversible actions may rely on it, such as removing data.
	Remove
)

// String implements fmt.Stringer.
func (l Level) String() string {
	switch l {
	case Stop:
		return "stop"
	case Remove:
		return "remove"
	}
	return "none"
}

// Reading is one reading of the time: its members belong together.
type Reading struct {
	// Now is the time, or the wall clock's while Level is None.
	Now   time.Time
	Level Level
	// Uptime is the node's total uptime: between two readings at least the
	// difference has passed, whatever any clock says. It is exact within one boot.
	// After a power cut it may be up to RecordEvery less than an earlier reading.
	Uptime time.Duration
}

// Source is the source of a trusted time.
type Source string

// The sources of trust.
const (
	// Nothing vouches for the clock: it is not trusted.
	Nothing Source = ""
	// Explorer is the word of the explorer, and nothing else. Level Stop.
	Explorer Source = "explorer"
	// Start is a clock that was plausible when the machine or the agent
	// started, and hasn't jumped since. Level Stop.
	Start Source = "start"
	// TrustedExplorer is the word of an explorer that the operator has named as
	// a trusted clock. Level Remove.
	TrustedExplorer Source = "explorer-trusted"
	// NTP is a kernel clock that something keeps right, or kept right less than
	// Holdover ago. Level Remove.
	NTP Source = "ntp"
)

// level is the level of the source's time.
func (s Source) level() Level {
	switch s {
	case Explorer, Start:
		return Stop
	case TrustedExplorer, NTP:
		return Remove
	}
	return None
}

// vouched reports whether more than the explorer's word supports the source.
func (s Source) vouched() bool { return s == Start || s.level() == Remove }

// spoken reports whether the source's time is the explorer's, and not the wall
// clock's.
func (s Source) spoken() bool { return s == Explorer || s == TrustedExplorer }
