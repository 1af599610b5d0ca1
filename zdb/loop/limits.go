package loop

import (
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/limit"
)

// Connections are the places of those who didn't come over an admin's listener.
// Each counts for the source of who isn't known (see Standing); the places that
// are kept are for the known ones.
var Connections = limit.Limit{Name: "zdb-connections", Per: "source", Each: 256, Total: 4096, Kept: 1024}

// GroupConnections are the places in a group, which is a namespace.
var GroupConnections = limit.Limit{Name: "zdb-namespace-connections", Per: "namespace", Each: 512}

// AdminConnections are the places of those who came over an admin's listener.
var AdminConnections = limit.Limit{Name: "zdb-admin-connections", Total: 64}

// Buffers are what requests and replies on their way take. What is kept is for
// the known ones.
var Buffers = limit.Limit{Name: "zdb-buffers", Per: "source", Each: 64 << 20, Total: 256 << 20, Kept: 128 << 20, Unit: limit.Bytes}

// ConnectionBuffers are the same of one connection.
var ConnectionBuffers = limit.Limit{Name: "zdb-connection-buffers", Per: "connection", Each: 32 << 20, Unit: limit.Bytes}

// StrangerRequest is how large a request of a stranger may be, see Standing.
var StrangerRequest = limit.Limit{Name: "zdb-stranger-request", Per: "connection", Each: 16 << 10, Unit: limit.Bytes}

const (
	// leastShare is what a source may have of the buffers however few there are:
	// the largest value with its request.
	leastShare = 20 << 20
	// newcomers is the part of the places that known ones leave to those who come.
	newcomers = 16
	// spareFiles are file descriptors for all but connections.
	spareFiles       = 128
	leastConnections = 16
)

// shares are the limits of a loop: those above, as its Config changes them.
type shares struct {
	connections, group, buffers limit.Limit
}

func (c *Config) shares() shares {
	s := shares{connections: Connections, group: GroupConnections, buffers: Buffers}
	s.connections.Total = int64(min(c.MaxConnections, mostConnections()))
	s.connections.Each = int64(c.MaxSource)
	s.connections.Kept = s.connections.Total / 4
	s.group.Each = int64(c.MaxGroup)
	s.buffers.Total = c.MaxBuffers
	s.buffers.Each = max(c.MaxBuffers/4, min(c.MaxBuffers, leastShare))
	s.buffers.Kept = c.MaxBuffers / 2
	return s
}

// mostConnections is how many this process has file descriptors for: half of
// them are for the stores' files.
func mostConnections() int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return leastConnections
	}
	return int(max(leastConnections, min(files.Cur/2, 1<<30)-min(spareFiles, files.Cur/2)))
}
