package node

// Where the agent takes in how often limits were reached, beside its counters.
const (
	LimitsObject  = "limits"
	LimitsVersion = "0.1.0"
)

// TimesReached is how often each limit has turned something away, by its name in
// docs/security.md.
type TimesReached map[string]uint64

// LimitTimes is what the limits of one of the node's processes have turned away since
// it began.
type LimitTimes struct {
	// Part is the process.
	Part  string
	Times TimesReached
}

// LimitCounts takes in what the modules count that are processes of their own, so that
// the agent's /metrics has all of the node. Bus: provision.limits@0.1.0.
type LimitCounts interface {
	// Count takes a process's counts in place of its last ones. Invalid when the part
	// has no name.
	Count(times LimitTimes) error
}
