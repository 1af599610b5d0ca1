package containerd

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// termTime is how long containerd may take to end before it is killed.
const termTime = 10 * time.Second

// TakeDown stops croft's own containerd, if it runs, and removes its files of the run
// folder. Containers that still run are not stopped. Its files on disk stay.
// A Daemon that is open would start it again: close it before.
func TakeDown(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	c = c.withDefaults()
	if _, err := os.Stat(c.run()); os.IsNotExist(err) {
		return nil
	}
	lock, err := c.startTurn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	var group cgroup.Group
	if p := listener(ctx, c.socket()); p != nil {
		defer p.Close()
		group = cgroup.Of(p.PID(), c.group())
		if err := end(ctx, p); err != nil {
			return err
		}
	}
	group.Remove()
	if group, err := cgroup.Beside(c.group()); err == nil {
		group.Remove() // a killed containerd leaves it
	}
	for _, name := range []string{c.socket(), c.socket() + ".ttrpc", c.file(), c.log(), c.log() + ".1"} {
		_ = os.Remove(name)
	}
	return nil
}

// end ends a process, and returns when it has ended.
func end(ctx context.Context, p *carrier.Process) error {
	_ = p.Signal(unix.SIGTERM)
	for _, after := range []<-chan time.Time{time.After(termTime), nil} {
		select {
		case <-p.Done():
			return nil
		case <-after:
			_ = p.Signal(unix.SIGKILL)
		case <-ctx.Done():
			return node.Errorf(node.Unknown, "cannot wait for containerd, process %d, to end: %w", p.PID(), ctx.Err())
		}
	}
	return nil
}
