package zdb

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
	// hookTime is how long a hook may run.
	hookTime = time.Minute
	// hookKept is how long HOOKS lists one that has ended.
	hookKept = time.Minute
	// mostHooks is how many are listed, those that have yet to run included.
	mostHooks = 256
	// hookGrace is how long a hook that was told to end is waited for.
	hookGrace = time.Second
)

// hook is one run of the hook program.
type hook struct {
	kind              string
	args              []string
	pid, status       int
	created, finished int64
}

// hooks runs the hook program, one run after the other and beside the loop.
type hooks struct {
	program  string
	instance string
	log      zerolog.Logger
	ctx      context.Context
	cancel   context.CancelFunc
	done     sync.WaitGroup

	mu   sync.Mutex
	list []*hook
	todo []*hook
	busy bool
}

// newHooks makes the runner; with no program it does nothing.
func newHooks(program string, instance uint32, log zerolog.Logger) *hooks {
	ctx, cancel := context.WithCancel(context.Background())
	return &hooks{program: program, instance: strconv.FormatUint(uint64(instance), 10), log: log, ctx: ctx, cancel: cancel}
}

// run has the program run with kind and args, after those that are to run
// already.
func (h *hooks) run(kind string, args ...string) {
	if h.program == "" || h.ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clean(time.Now())
	if len(h.list) >= mostHooks {
		h.log.Error().Str("hook", kind).Int("listed", len(h.list)).Msg("a hook isn't run: too many of them wait or ended within a minute")
		return
	}
	k := &hook{kind: kind, args: args, created: time.Now().Unix()}
	h.list = append(h.list, k)
	h.todo = append(h.todo, k)
	if !h.busy {
		h.busy = true
		h.done.Go(h.work)
	}
}

// wait returns once all hooks have ended, or are killed by their time.
func (h *hooks) wait() { h.done.Wait() }

// close runs no more of them, and kills the one that runs.
func (h *hooks) close() {
	h.cancel()
	h.done.Wait()
}

func (h *hooks) work() {
	for {
		k := h.next()
		if k == nil {
			return
		}
		h.execute(k)
	}
}

func (h *hooks) next() *hook {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.todo) == 0 || h.ctx.Err() != nil {
		h.busy = false
		return nil
	}
	k := h.todo[0]
	h.todo = h.todo[1:]
	return k
}

// execute runs the program: its arguments are the kind, the server's instance and
// what the kind tells.
func (h *hooks) execute(k *hook) {
	ctx, cancel := context.WithTimeout(h.ctx, hookTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.program, append([]string{k.kind, h.instance}, k.args...)...)
	// A group of its own, so that what it started ends with it.
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = hookGrace
	err := cmd.Start()
	if err == nil {
		h.note(func() { k.pid = cmd.Process.Pid })
		err = cmd.Wait()
	}
	status := 0
	if err != nil {
		status = statusOf(err)
		h.log.Warn().Err(err).Str("hook", k.kind).Int("status", status).Msg("a hook failed")
	}
	h.note(func() { k.status, k.finished = status, time.Now().Unix() })
}

func (h *hooks) note(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
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

// clean forgets those that ended long ago.
func (h *hooks) clean(now time.Time) {
	kept := h.list[:0]
	for _, k := range h.list {
		if k.finished == 0 || now.Unix()-k.finished <= int64(hookKept/time.Second) {
			kept = append(kept, k)
		}
	}
	h.list = kept
}

// listed are copies of those that HOOKS tells of.
func (h *hooks) listed() []hook {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clean(time.Now())
	out := make([]hook, len(h.list))
	for i, k := range h.list {
		out[i] = *k
	}
	return out
}

// hookList is HOOKS.
func (s *Server) hookList(c *session, _ [][]byte) {
	list := s.hooks.listed()
	c.array(len(list))
	for _, k := range list {
		c.array(6)
		c.text(k.kind)
		c.array(len(k.args))
		for _, a := range k.args {
			c.text(a)
		}
		c.number(int64(k.pid))
		c.number(k.created)
		c.number(k.finished)
		c.number(int64(k.status))
	}
}
