package containerd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

// askAgain is the time between two looks whether a started containerd listens.
const askAgain = 20 * time.Millisecond

// configuration configures croft's own containerd: one socket that only root opens,
// no files outside of its folders, no Kubernetes. A shim that doesn't answer within shim.load is
// taken for dead when containerd starts, and its container is killed: the 5 s of the default are too short on a
// node whose processors are full. containerd loads one shim after the other before it listens, so that several that
// hang must fit into defaultWithin.
const configuration = `version = 2
root = %q
state = %q
disabled_plugins = [
  "io.containerd.grpc.v1.cri",
  "io.containerd.cri.v1.images",
  "io.containerd.cri.v1.runtime",
  "io.containerd.podsandbox.controller.v1.podsandbox",
  "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.internal.v1.tracing",
]

[grpc]
  address = %q
  uid = 0
  gid = 0

[debug]
  address = ""
  level = "warn"

[metrics]
  address = ""

[timeouts]
  "io.containerd.timeout.shim.load" = "15s"
  "io.containerd.timeout.shim.cleanup" = "15s"
  "io.containerd.timeout.shim.shutdown" = "15s"
  "io.containerd.timeout.task.state" = "15s"

[plugins."io.containerd.internal.v1.opt"]
  path = %q
`

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
	text := fmt.Sprintf(configuration, c.root(), filepath.Join(c.run(), "state"), c.socket(), filepath.Join(c.state(), "opt"))
	if err := atomicfile.WriteFile(c.file(), []byte(text), 0o600); err != nil {
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
