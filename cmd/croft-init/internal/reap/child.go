package reap

import (
	"syscall"

	"github.com/pkg/errors"
)

// Child is a process that a Reaper has started.
type Child struct {
	PID    int
	reaper *Reaper
	done   chan struct{}
	code   int
}

// Done is closed when it has ended and was collected.
func (c *Child) Done() <-chan struct{} { return c.done }

// Code is its exit code, or 128 and the signal that ended it. Only after Done.
func (c *Child) Code() int { return c.code }

// Signal signals its process group. A child that has ended has none.
func (c *Child) Signal(s syscall.Signal) error {
	c.reaper.mu.Lock()
	defer c.reaper.mu.Unlock()
	if c.reaper.children[c.PID] != c {
		return nil // its number may be somebody else's by now
	}
	if err := syscall.Kill(-c.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return errors.Wrapf(err, "cannot send signal %d to the group of process %d", int(s), c.PID)
	}
	return nil
}
