package containerd

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/containerd/configuration"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

// askAgain is the time between two looks whether a started containerd listens.
const askAgain = 20 * time.Millisecond

// ensure returns the process of croft's own containerd, which it starts when
// there is none. Several callers at the same time start one.
func (c Config) ensure(ctx context.Context) (*carrier.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Within)
	defer cancel()
	if p := listener(ctx, c.socket()); p != nil {
		c.confine(p.PID())
		return p, nil
	}
	if err := c.makeFolders(); err != nil {
		return nil, err
	}
	lock, err := c.startTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Release() }()
	if p := listener(ctx, c.socket()); p != nil {
		return p, nil
	}
	return c.start(ctx)
}

// start starts containerd, and waits until it listens. One that doesn't is killed.
func (c Config) start(ctx context.Context) (*carrier.Process, error) {
	path, err := binaryVersion(ctx, c.Binary)
	if err != nil {
		return nil, err
	}
	places := configuration.Places{Root: c.root(), State: filepath.Join(c.run(), "state"), Socket: c.socket(), Opt: filepath.Join(c.state(), "opt")}
	if err := atomicfile.WriteFile(c.file(), []byte(places.Text()), 0o600); err != nil {
		return nil, errors.Wrap(err, "cannot write containerd's configuration")
	}
	started, died, err := c.exec(path)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	for {
		if p := listener(ctx, c.socket()); p != nil {
			return p, nil
		}
		select {
		case err := <-died:
			return nil, node.Errorf(node.Transient, "cannot start containerd: it ended (%v); see %s", err, c.log())
		case <-ctx.Done():
			_ = started.Kill()
			return nil, node.Errorf(node.Transient, "cannot start containerd: it didn't listen in time (%w); see %s", ctx.Err(), c.log())
		case <-tick.C:
		}
	}
}

// exec runs containerd in a session and control groups of its own. It inherits nothing of
// this process but its log.
func (c Config) exec(path string) (*os.Process, <-chan error, error) {
	out, err := os.OpenFile(c.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, errors.Wrap(err, "cannot open containerd's log")
	}
	defer out.Close()
	if err := unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		c.Log.Debug().Str("step", "containerd").Err(err).Msg("cannot keep open files from containerd")
	}
	cmd := exec.Command(path, "--config", c.file()) //nolint:noctx // it outlives who starts it
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, node.Errorf(node.Transient, "cannot start containerd: %w", err)
	}
	c.Log.Info().Str("step", "containerd").Int("pid", cmd.Process.Pid).Msg("containerd started")
	c.confine(cmd.Process.Pid)
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }() // also so that no zombie stays
	return cmd.Process, died, nil
}

// startTurn waits until no other process starts or stops croft's own containerd, and keeps the
// others waiting until the lock is released.
func (c Config) startTurn(ctx context.Context) (*filelock.Lock, error) {
	lock, err := filelock.Wait(ctx, c.startLock())
	if err != nil && ctx.Err() != nil {
		return nil, node.Errorf(node.Transient, "cannot wait for the process that starts containerd: %w", ctx.Err())
	}
	return lock, err
}
