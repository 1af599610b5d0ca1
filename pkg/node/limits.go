package node

// The agent's address on the bus for counts of reached limits, beside its counters.
const (
	LimitsObject  = "limits"
	LimitsVersion = "0.1.0"
)

// TimesReached counts how often each limit turned something away, by the limit's name
// in docs/security.md.
type TimesReached map[string]uint64

// LimitTimes are the counts of reached limits of one of the node's processes, since its
// start.
type LimitTimes struct {
	// Part is the process.
	Part  string
	Times TimesReached
}

// LimitCounts collects the counts of modules that are processes of their own, so that
// the agent's /metrics covers the whole node. Bus: provision.limits@0.1.0.
type LimitCounts interface {
	// Count replaces a process's last counts. Invalid when the part has no name.
	Count(times LimitTimes) error
}
