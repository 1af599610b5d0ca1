package clock

import "time"

// Level is how far a time can be trusted.
type Level int

// The levels, the lowest first.
const (
	// None: nothing vouches for the time. No date is compared with it.
	None Level = iota
	// Stop: good enough to stop what is over, which can be taken back.
	Stop
	// Remove: a proof, good enough for what can't be taken back.
	Remove
)

// String implements fmt.Stringer.
func (l Level) String() string {
	switch l {
	case None:
		return "none"
	case Stop:
		return "stop"
	case Remove:
		return "remove"
	}
	return "unknown"
}

// Reading is one look at the time.
type Reading struct {
	// Now is the time at Level Stop and above, else the wall clock's.
	Now   time.Time
	Level Level
	// Uptime is how long the node has been up in all, summed over reboots: never
	// more than what has really passed.
	Uptime time.Duration
}
