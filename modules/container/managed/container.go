package managed

import (
	"time"

	"github.com/containerd/containerd/v2/client"
)

// Container is a container in the hands of this process.
type Container struct {
	ID string
	// Prepared is the task that this module has made and not started yet. Only the holder of the
	// container uses it.
	Prepared PreparedTask

	// change holds the token of the one change that may happen at a time.
	change chan struct{}

	// These are guarded by Table.mu. users counts the holders of change and those waiting for it.
	record    Record
	hasRecord bool
	timer     *time.Timer
	users     int
}

// PreparedTask is a task that was made and not started, and its process; the zero value
// for none.
type PreparedTask struct {
	Container client.Container
	Task      client.Task
	PID       uint32
}

func newContainer(id string) *Container {
	return &Container{ID: id, change: make(chan struct{}, 1)}
}

// waits reports whether the next start of the container is scheduled.
func (c *Container) waits() bool { return c.hasRecord && c.record.Wanted && c.record.Next != 0 }
