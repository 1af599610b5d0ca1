package carrier

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// Config is what Ensure needs.
type Config struct {
	// RunDir is the node's folder of sockets: {run}.
	RunDir string
	// Command starts a carrier for RunDir: the path of a program and its
	// arguments, such as "/proc/self/exe carrier wg --run-dir {run}".
	Command []string
	// Within is how long a new carrier may take until it answers; 0 for 10 s.
	Within time.Duration
	Log    zerolog.Logger
}

const (
	defaultWithin = 10 * time.Second
	// askAgain is how often a carrier that starts is asked.
	askAgain = 10 * time.Millisecond
)

// Ensure returns a client of the running carrier, or starts one. Several at
// the same time, also of several processes, start one. A carrier of another
// protocol is replaced: its links stay. node.Transient when none answers in time.
func Ensure(ctx context.Context, c Config) (*Client, error) {
	if c.Within <= 0 {
		c.Within = defaultWithin
	}
	ctx, cancel := context.WithTimeout(ctx, c.Within)
	defer cancel()
	dir := folderOf(c.RunDir)
	if err := dir.make(); err != nil {
		return nil, err
	}
	if client, err := find(ctx, dir); err == nil && client != nil {
		return client, nil
	}
	lock, err := waitLock(ctx, dir.startLock())
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	return c.ensure(ctx, dir)
}

// ensure is Ensure while nobody else starts one.
func (c Config) ensure(ctx context.Context, dir folder) (*Client, error) {
	var died <-chan error
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	for {
		client, err := find(ctx, dir)
		if err != nil || client != nil {
			return client, err
		}
		if died == nil {
			if died, err = c.startUnlessRuns(dir); err != nil {
				return nil, err
			}
		}
		select {
		case err := <-died:
			return nil, node.Errorf(node.Transient, "cannot start the carrier: it ended (%v); see %s", err, dir.log())
		case <-ctx.Done():
			return nil, node.Errorf(node.Transient, "cannot wait for the carrier of %s to answer: %w; see %s", c.RunDir, ctx.Err(), dir.log())
		case <-tick.C:
		}
	}
}

// find is a client of the carrier that answers, nil when none does. One that
// speaks another protocol is stopped.
func find(ctx context.Context, dir folder) (*Client, error) {
	answer, pid, err := call(ctx, dir.socket(), request{Op: opInfo}, 0)
	if errors.Is(err, node.Refused) {
		return nil, err
	}
	if err != nil || answer.Info == nil {
		return nil, nil
	}
	process, err := watch(pid)
	if err != nil {
		return nil, nil // it ended just now
	}
	client := &Client{dir: dir, process: process}
	if answer.Info.Protocol == protocol {
		return client, nil
	}
	defer client.Close()
	return nil, client.Stop(ctx)
}

// startUnlessRuns starts a carrier when none holds the lock: one that does is
// about to answer. died says that the one that was started has ended.
func (c Config) startUnlessRuns(dir folder) (died <-chan error, err error) {
	lock, err := tryLock(dir.lock())
	if err != nil || lock == nil {
		return nil, err
	}
	lock.Close()
	return c.start(dir)
}

// start runs the command in a session of its own. It gets nothing of this
// process but the log.
func (c Config) start(dir folder) (<-chan error, error) {
	if len(c.Command) == 0 {
		return nil, node.Errorf(node.Invalid, "cannot start the carrier: no command is given")
	}
	out, err := os.OpenFile(dir.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, errors.Wrap(err, "cannot open the carrier's log")
	}
	defer out.Close()
	// Files that this process got without close-on-exec, such as a service
	// manager's sockets, aren't the carrier's.
	if err := unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		c.Log.Debug().Err(err).Msg("open files can't be kept from the carrier")
	}
	// Not of a context: the carrier outlives this process.
	cmd := exec.Command(c.Command[0], c.Command[1:]...) //nolint:noctx // it outlives who starts it
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, node.Errorf(node.Transient, "cannot start the carrier: %w", err)
	}
	c.Log.Info().Int("pid", cmd.Process.Pid).Str("type", "carrier").Msg("carrier started")
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }() // also so that no zombie stays
	return died, nil
}

// waitLock waits for a lock.
func waitLock(ctx context.Context, path string) (*os.File, error) {
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	for {
		lock, err := tryLock(path)
		if err != nil || lock != nil {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, node.Errorf(node.Transient, "cannot wait for who starts the carrier: %w", ctx.Err())
		case <-tick.C:
		}
	}
}
