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

	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// Starter starts carriers, at most one a folder.
type Starter struct {
	Folder Folder
	// Command starts one: the path of a program and its arguments.
	Command []string
	// Within is how long a new carrier may take until it answers; 0 for 10 s.
	Within time.Duration
	// Find returns a watch of the running carrier, nil when none answers. It ends
	// one that can't be used.
	Find func(ctx context.Context) (*Process, error)
	Log  zerolog.Logger
}

const (
	defaultWithin = 10 * time.Second
	// askAgain is the interval at which a starting carrier is asked.
	askAgain = 10 * time.Millisecond
	// lockWithin is the time until a started carrier holds its lock.
	lockWithin = time.Second
)

// Ensure finds the running carrier, or starts one. Several at the same time,
// also of several processes, start one. node.Transient when none answers in time.
func (s Starter) Ensure(ctx context.Context) (p *Process, started bool, err error) {
	if s.Within <= 0 {
		s.Within = defaultWithin
	}
	ctx, cancel := context.WithTimeout(ctx, s.Within)
	defer cancel()
	if err := s.Folder.Make(); err != nil {
		return nil, false, err
	}
	if p, err := s.Find(ctx); err == nil && p != nil {
		return p, false, nil
	}
	lock, err := filelock.Wait(ctx, s.Folder.StartLock())
	if ctx.Err() != nil && err != nil {
		return nil, false, node.Errorf(node.Transient, "cannot wait for the process that starts the carrier: %w", ctx.Err())
	}
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = lock.Release() }()
	return s.ensure(ctx)
}

// ensure is Ensure while it holds the start lock.
func (s Starter) ensure(ctx context.Context) (p *Process, started bool, err error) {
	var died <-chan error
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	for {
		p, err := s.Find(ctx)
		if err != nil || p != nil {
			return p, died != nil, err
		}
		// A process for a caller that has gone would be left over.
		if died == nil && ctx.Err() == nil {
			if died, err = s.startUnlessRuns(); err != nil {
				return nil, false, err
			}
		}
		select {
		case err := <-died:
			return nil, false, node.Errorf(node.Transient, "cannot start the carrier: it ended (%v); see %s", err, s.Folder.Log())
		case <-ctx.Done():
			s.awaitLock(died)
			return nil, false, node.Errorf(node.Transient, "cannot wait for the carrier of %s to answer: %w; see %s", s.Folder, ctx.Err(), s.Folder.Log())
		case <-tick.C:
		}
	}
}

// awaitLock waits for a moment until a started carrier holds its lock, so that End finds
// it. died is nil when none was started.
func (s Starter) awaitLock(died <-chan error) {
	if died == nil {
		return
	}
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	for deadline := time.After(lockWithin); ; {
		lock, err := filelock.Try(s.Folder.Lock())
		if err != nil { // it is held
			return
		}
		_ = lock.Release()
		select {
		case err := <-died:
			s.Log.Debug().Str("step", "carrier").Err(err).Msg("the carrier that was started has ended")
			return
		case <-deadline:
			return
		case <-tick.C:
		}
	}
}

// startUnlessRuns starts a carrier when none holds the lock: a holder is about to
// answer. died reports the end of the started one.
func (s Starter) startUnlessRuns() (died <-chan error, err error) {
	lock, err := filelock.Try(s.Folder.Lock())
	if filelock.Held(err) != nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := lock.Release(); err != nil {
		return nil, err
	}
	return s.start()
}

// start runs the command in its own session. It inherits nothing of this process
// but the log.
func (s Starter) start() (<-chan error, error) {
	if len(s.Command) == 0 {
		return nil, node.Errorf(node.Invalid, "cannot start the carrier: no command is given")
	}
	out, err := os.OpenFile(s.Folder.Log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, errors.Wrap(err, "cannot open the carrier's log")
	}
	defer out.Close()
	// Files that this process got without close-on-exec, such as a service
	// manager's sockets, aren't the carrier's.
	if err := unix.CloseRange(3, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		s.Log.Debug().Str("step", "carrier").Err(err).Msg("cannot keep open files from the carrier")
	}
	// Without a context: the carrier outlives this process.
	cmd := exec.Command(s.Command[0], s.Command[1:]...) //nolint:noctx // it outlives who starts it
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, node.Errorf(node.Transient, "cannot start the carrier: %w", err)
	}
	s.Log.Info().Str("step", "carrier").Int("pid", cmd.Process.Pid).Str("folder", string(s.Folder)).Msg("carrier started")
	died := make(chan error, 1)
	go func() { died <- supervise.Guard(s.Log, "carrier", cmd.Wait) }() // also so that no zombie stays
	return died, nil
}
