// Package service runs a machine's programs for its first process: containerd, the parts of a node, the control plane. Each is started
// again when it has ended, with growing pauses, and what it prints goes to a bounded log. Whether a program is ready is found by trying.
//
// It owns the processes that it starts.
package service

import (
	"cmp"
	"context"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/backoff"
)

// Spec is a program.
type Spec struct {
	// Name is that of its log.
	Name string
	// Command is the program's path and its arguments.
	Command []string
	// Env is added to a minimal environment.
	Env []string
	// StopTime is how long it has between SIGTERM and SIGKILL; 0 is DefaultStop.
	StopTime time.Duration
	// Terminal gives it the console as its controlling terminal; it prints there then, not to a log.
	Terminal string
	// Before is called before each start; an error is one of the start. nil for nothing.
	Before func() error
	// Ready tries whether the program does its work; nil for one that is ready once it runs.
	Ready func(ctx context.Context) error
}

const (
	firstPause = time.Second
	longPause  = 30 * time.Second
	// settled is how long a program must have run for its pauses to begin anew.
	settled = 2 * time.Minute
	// DefaultStop is how long a program has between SIGTERM and SIGKILL.
	DefaultStop = 8 * time.Second
	// lastLines is how many lines of its log are shown when it ends.
	lastLines = 3
)

// Runner runs programs. It is safe for concurrent use.
type Runner struct {
	logs string
	say  func(format string, args ...any)

	// pids is the folder of the files with the programs' processes; empty for none.
	pids string

	mu      sync.Mutex
	running map[string]*Service
	// closed tells that no more programs are started.
	closed bool
}

// NewRunner makes a runner with its logs in a folder; say writes a line to the console.
func NewRunner(logs string, say func(format string, args ...any)) *Runner {
	return &Runner{logs: logs, say: say, running: map[string]*Service{}}
}

// LogTo has programs that are started from now on write their logs in another folder.
func (r *Runner) LogTo(folder string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = folder
}

// Service is a program that is kept running.
type Service struct {
	spec  Spec
	log   *Log
	say   func(format string, args ...any)
	stop  context.CancelFunc
	ended chan struct{}

	pids string

	mu      sync.Mutex
	process *exec.Cmd
	state   State
}

// Start starts a program and keeps it running until Stop. One of the same name must not run, and the runner must not be closed.
func (r *Runner) Start(spec Spec) (*Service, error) {
	r.mu.Lock()
	folder := r.logs
	r.mu.Unlock()
	log, err := OpenLog(folder, spec.Name)
	if err != nil {
		r.say("%v: %s goes on without it", err, spec.Name)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Service{spec: spec, log: log, say: r.say, stop: stop, ended: make(chan struct{}), pids: r.pids, state: State{Name: spec.Name}}
	r.mu.Lock()
	if r.closed || r.running[spec.Name] != nil {
		is := map[bool]string{true: "no more programs are started", false: "it is running"}[r.closed]
		r.mu.Unlock()
		stop()
		log.Close()
		return nil, errors.Errorf("cannot start %s: %s", spec.Name, is)
	}
	r.running[spec.Name] = s
	r.mu.Unlock()
	go func() {
		defer close(s.ended)
		defer log.Close()
		s.keep(ctx)
	}()
	return s, nil
}

// Stop ends the programs of these names, all at once, and returns when they have ended. Unknown names are left out.
func (r *Runner) Stop(names ...string) {
	var stopping []*Service
	r.mu.Lock()
	for _, name := range names {
		if s := r.running[name]; s != nil {
			stopping = append(stopping, s)
			delete(r.running, name)
		}
	}
	r.mu.Unlock()
	for _, s := range stopping {
		s.stop()
	}
	for _, s := range stopping {
		<-s.ended
	}
}

// Close has no more programs started. Those that run stay.
func (r *Runner) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// Service is the program of that name that is kept running; nil if there is none.
func (r *Runner) Service(name string) *Service {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running[name]
}

// Running are the names of the programs that are kept running.
func (r *Runner) Running() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, 0, len(r.running))
	for name := range r.running {
		out = append(out, name)
	}
	return out
}

// Restart asks the program's process to end; it is started again after the usual pause.
func (s *Service) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended just now
	}
}

// Log is the program's log.
func (s *Service) Log() *Log { return s.log }

func (s *Service) keep(ctx context.Context) {
	pause := backoff.Backoff{Base: firstPause, Max: longPause}
	for failures := 0; ; {
		started := time.Now()
		err := s.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > settled {
			failures = 0
		}
		failures++
		wait := pause.Delay(failures)
		s.hasEnded(err)
		s.say("%s ended: %v; it starts again in %s", s.spec.Name, err, wait.Round(100*time.Millisecond))
		for _, line := range s.log.Last(lastLines) {
			s.say("  %s: %s", s.spec.Name, line)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// once runs the program to its end. When ctx is over it is asked to end, and made to after its stop time.
func (s *Service) once(ctx context.Context) error {
	if s.spec.Before != nil {
		if err := s.spec.Before(); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, s.spec.Command[0], s.spec.Command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = cmp.Or(s.spec.StopTime, DefaultStop)
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}, s.spec.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if s.spec.Terminal != "" {
		terminal, err := openTerminal(s.spec.Terminal)
		if err != nil {
			return err
		}
		defer terminal.Close()
		cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
		cmd.SysProcAttr.Setctty = true
	}
	if err := s.begin(cmd); err != nil {
		return err
	}
	defer s.set(nil)
	over, done := context.WithCancel(ctx)
	defer done()
	go s.try(over)
	err := cmd.Wait()
	if err == nil {
		return errors.New("exit status 0")
	}
	return errors.New(strings.TrimSpace(err.Error()))
}

// begin starts the process. A Restart that comes meanwhile waits, and ends it: it may have read its files already.
func (s *Service) begin(cmd *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := cmd.Start()
	if err != nil {
		return err
	}
	s.process = cmd
	s.state.PID, s.state.Since, s.state.Ready, s.state.Cause = cmd.Process.Pid, time.Now(), s.spec.Ready == nil, ""
	if s.pids != "" {
		if err := note(s.pids, s.spec.Name, cmd.Process.Pid); err != nil {
			s.say("%v", err) // it would only be left over if this process were killed
		}
	}
	return nil
}

func (s *Service) set(cmd *exec.Cmd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = cmd
}
