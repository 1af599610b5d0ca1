package loop

import (
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/limit"
)

// Connections limits the connections that didn't come over an admin's listener. Each is
// the limit of a source's unknown ones (see Standing); Kept places are for known ones.
var Connections = limit.Limit{Name: "zdb-connections", Per: "source", Each: 256, Total: 4096, Kept: 1024}

// GroupConnections limits the connections in a group, which is a namespace.
var GroupConnections = limit.Limit{Name: "zdb-namespace-connections", Per: "namespace", Each: 512}

// AdminConnections limits the connections that came over an admin's listener.
var AdminConnections = limit.Limit{Name: "zdb-admin-connections", Total: 64}

// Buffers limits the memory for requests and replies on their way. Kept bytes are for
// known connections.
var Buffers = limit.Limit{Name: "zdb-buffers", Per: "source", Each: 64 << 20, Total: 256 << 20, Kept: 128 << 20, Unit: limit.Bytes}

// ConnectionBuffers limits the same of one connection.
var ConnectionBuffers = limit.Limit{Name: "zdb-connection-buffers", Per: "connection", Each: 32 << 20, Unit: limit.Bytes}

// StrangerRequest limits the size of a stranger's request, see Standing.
var StrangerRequest = limit.Limit{Name: "zdb-stranger-request", Per: "connection", Each: 16 << 10, Unit: limit.Bytes}

const (
	// leastShare is the minimum of a source's limit of buffers, in bytes: the largest
	// value with its request.
	leastShare = 20 << 20
	// newcomers is the part of the places that known connections leave to new ones.
	newcomers = 16
	// spareFiles are file descriptors for other uses than connections.
	spareFiles       = 128
	leastConnections = 16
)

// shares are a loop's limits: those above, changed by its Config.
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

// mostConnections is how many connections this process has file descriptors for: half
// of them are for the stores' files.
func mostConnections() int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return leastConnections
	}
	return int(max(leastConnections, min(files.Cur/2, 1<<30)-min(spareFiles, files.Cur/2)))
}
