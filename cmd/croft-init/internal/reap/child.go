package reap

import (
	"syscall"

	"github.com/pkg/errors"
)

// Child is a process that a Reaper started.
type Child struct {
	PID    int
	reaper *Reaper
	done   chan struct{}
	code   int
}

// Done is closed when the process has ended and was collected.
func (c *Child) Done() <-chan struct{} { return c.done }

// Code is the exit code, or 128 plus the signal that ended it. Valid only after Done.
func (c *Child) Code() int { return c.code }

// Signal signals the child's process group; it does nothing after the child has ended.
func (c *Child) Signal(s syscall.Signal) error {
	c.reaper.mu.Lock()
	defer c.reaper.mu.Unlock()
	if c.reaper.children[c.PID] != c {
		return nil // its PID may already be reused
	}
	if err := syscall.Kill(-c.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return errors.Wrapf(err, "cannot send signal %d to the group of process %d", int(s), c.PID)
	}
	return nil
}
