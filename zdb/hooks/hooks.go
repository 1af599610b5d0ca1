// Package hooks runs the hook program of a zdb server: one run after the other, beside
// the loop's thread, each for a minute at most. It owns the processes that it starts
// and the list of recent runs; it knows nothing of namespaces.
package hooks

import (
	"context"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

const (
	// timeout is how long a hook may run.
	timeout = time.Minute
	// kept is how long a run is listed after its end.
	kept = time.Minute
	// most is how many runs are listed, those that wait included.
	most = 256
	// grace is how long a killed hook is waited for.
	grace = time.Second
)

// Run is one run of the hook program. Times are in seconds since 1970; PID and Finished
// are 0 before the start and the end.
type Run struct {
	Kind              string
	Args              []string
	PID, Status       int
	Created, Finished int64
}

// Runner runs the hook program. It is safe for concurrent use.
type Runner struct {
	program  string
	instance string
	log      zerolog.Logger
	ctx      context.Context
	cancel   context.CancelFunc
	done     sync.WaitGroup

	mu   sync.Mutex
	list []*Run // those that HOOKS tells of
	todo []*Run // those that wait
	busy bool   // work runs
}

// New makes a runner; with no program it does nothing.
func New(program string, instance uint32, log zerolog.Logger) *Runner {
	ctx, cancel := context.WithCancel(context.Background())
	return &Runner{program: program, instance: strconv.FormatUint(uint64(instance), 10), log: log, ctx: ctx, cancel: cancel}
}

// Run queues a run of the program with kind and args.
func (r *Runner) Run(kind string, args ...string) {
	if r.program == "" || r.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clean(time.Now())
	if len(r.list) >= most {
		r.log.Error().Str("hook", kind).Int("listed", len(r.list)).Msg("a hook isn't run: too many of them wait or ended within a minute")
		return
	}
	k := &Run{Kind: kind, Args: args, Created: time.Now().Unix()}
	r.list = append(r.list, k)
	r.todo = append(r.todo, k)
	if !r.busy {
		r.busy = true
		r.done.Go(r.work)
	}
}

// Wait returns once all queued runs have ended, or were killed for their time.
func (r *Runner) Wait() { r.done.Wait() }

// Close drops the waiting runs, and kills the present one.
func (r *Runner) Close() {
	r.cancel()
	r.done.Wait()
}

func (r *Runner) work() {
	for {
		k := r.next()
		if k == nil {
			return
		}
		r.execute(k)
	}
}

func (r *Runner) next() *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.todo) == 0 || r.ctx.Err() != nil {
		r.busy = false
		return nil
	}
	k := r.todo[0]
	r.todo = r.todo[1:]
	return k
}

// execute runs the program: its arguments are the kind, the server's instance and
// the run's Args.
func (r *Runner) execute(k *Run) {
	ctx, cancel := context.WithTimeout(r.ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.program, append([]string{k.Kind, r.instance}, k.Args...)...)
	// A process group of its own, so that its children end with it.
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = grace
	err := cmd.Start()
	if err == nil {
		r.note(func() { k.PID = cmd.Process.Pid })
		err = cmd.Wait()
	}
	status := 0
	if err != nil {
		status = statusOf(err)
		r.log.Warn().Err(err).Str("hook", k.Kind).Int("status", status).Msg("a hook failed")
	}
	r.note(func() { k.Status, k.Finished = status, time.Now().Unix() })
}

func (r *Runner) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// statusOf is the exit code, 255 when there is none.
func statusOf(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode()
	}
	return 255
}

// clean forgets old runs. mu is held.
func (r *Runner) clean(now time.Time) {
	left := r.list[:0]
	for _, k := range r.list {
		if k.Finished == 0 || now.Unix()-k.Finished <= int64(kept/time.Second) {
			left = append(left, k)
		}
	}
	r.list = left
}

// List returns the runs that wait, run, or ended within a minute.
func (r *Runner) List() []Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clean(time.Now())
	out := make([]Run, len(r.list))
	for i, k := range r.list {
		out[i] = *k
	}
	return out
}
