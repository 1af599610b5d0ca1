package node

import "context"

// The debug module's address on the bus.
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
	// User is the ID of the stream's user.
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
	ID      string `yaml:"id" protobuf:"1"`
	User    string `yaml:"user" protobuf:"2"`
	Host    string `yaml:"host" protobuf:"3"`
	Port    uint16 `yaml:"port" protobuf:"4"`
	Channel string `yaml:"channel" protobuf:"5"`
	// Hash is the hash of its reservation.
	Hash string `yaml:"hash" protobuf:"6"`
	// Connected is whether the redis server has answered, and not failed since.
	Connected bool `yaml:"connected" protobuf:"7"`
	// Sent counts the lines that the redis server accepted, Dropped those that it
	// didn't, or whose outcome is unknown.
	Sent    uint64 `yaml:"sent" protobuf:"8"`
	Dropped uint64 `yaml:"dropped" protobuf:"9"`
	// LastError is the reason why it isn't connected; empty while it is.
	LastError string `yaml:"last_error" protobuf:"10"`
}

// Debug fans log lines out to redis channels. Its streams end with the module.
// Bus: debugd.debug@0.1.0.
type Debug interface {
	// Start starts it, or returns the one of that ID; Exist when that one differs.
	// It doesn't wait for the redis server. Refused when tenants may not use the
	// address, NoSpace when there are too many streams.
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

// LogLines collects the log lines of the node's other processes while a stream
// wants them. Bus: debugd.lines@0.1.0.
type LogLines interface {
	// Append gives lines to all streams, and says whether more are wanted. It
	// never waits for a stream. Without lines it only asks.
	Append(batch LogBatch) (LogDemand, error)
	// Demand streams whether lines are wanted: on change, and while they are every
	// few seconds, so that a listener that hears nothing for long knows they aren't.
	Demand(ctx context.Context) <-chan LogDemand
}
