package node

import "context"

// Where the debug module is found on the bus.
const (
	DebugModule     = "debugd"
	DebugObject     = "debug"
	DebugVersion    = "0.1.0"
	LogLinesObject  = "lines"
	LogLinesVersion = "0.1.0"
)

// DebugSpec asks for a stream of the node's log lines.
type DebugSpec struct {
	ID string
	// User is the ID of the user whose stream it is.
	User string
	Host string
	Port uint16
	// Channel is the redis channel the lines are published on.
	Channel string
	// Hash is the reservation's.
	Hash string
}

// DebugInfo is a stream of log lines.
type DebugInfo struct {
	ID      string
	User    string
	Host    string
	Port    uint16
	Channel string
	// Hash is that of the reservation that it belongs to.
	Hash string
	// Connected is whether the redis server has answered, and not failed since.
	Connected bool
	// Sent counts the lines that the redis server took, Dropped those that it
	// didn't, or of which it isn't known.
	Sent    uint64
	Dropped uint64
	// LastError is why it isn't connected; empty while it is.
	LastError string
}

// Debug fans log lines out to redis channels. Its streams end with the module.
// Bus: debugd.debug@0.1.0.
type Debug interface {
	// Start starts it, or returns the one of that ID; Exist when that one is
	// another. It doesn't wait for the redis server. Refused when the address
	// is none that tenants may name, NoSpace when there are too many.
	Start(spec DebugSpec) (DebugInfo, error)
	// Stop stops it. NotExist when there is none.
	Stop(id string) error
	// List returns all streams, by ID.
	List() ([]DebugInfo, error)
}

// LogBatch are log lines of one of the node's processes, oldest first.
type LogBatch struct {
	// Part is the process.
	Part  string
	Lines []string
	// Dropped counts the lines that were lost before these.
	Dropped uint64
}

// LogDemand says whether somebody wants the node's log lines.
type LogDemand struct {
	Wanted bool
}

// LogLines takes in the log lines of the node's other processes, while there
// is a stream that wants them. Bus: debugd.lines@0.1.0.
type LogLines interface {
	// Append gives lines to all streams, and says whether more are wanted. It
	// never waits for a stream. Without lines it only asks.
	Append(batch LogBatch) (LogDemand, error)
	// Demand streams whether lines are wanted: on change, and while they are
	// every few seconds, so that who hears nothing for long knows that they aren't.
	Demand(ctx context.Context) <-chan LogDemand
}
