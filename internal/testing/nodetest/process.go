package nodetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a child process with its log.
type Process struct {
	// Log is the file of its output.
	Log string

	tb   testing.TB
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Processes are a test's child processes, and the functions to call once they have ended.
type Processes struct {
	testing.TB
	dir string

	mu        sync.Mutex
	processes []*Process
	after     []func()
}

// kill kills all of them.
func (ps *Processes) kill() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.processes {
		p.Kill()
	}
}

// ended calls the functions of AfterKill, and fails the test when a process has reported a data race.
func (ps *Processes) ended() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.processes {
		log, err := os.ReadFile(p.Log)
		if err != nil {
			ps.Error(err)
		}
		if _, report, found := strings.Cut(string(log), "WARNING: DATA RACE"); found {
			ps.Errorf("%s reported a data race: %.4000s", p.name, report)
		}
	}
	for _, f := range ps.after {
		f()
	}
}

// Start runs a program in the background until the test ends.
func (ps *Processes) Start(name, program string, args ...string) *Process {
	ps.Helper()
	ps.mu.Lock()
	log := filepath.Join(ps.dir, fmt.Sprintf("%s-%d.log", name, len(ps.processes)))
	ps.mu.Unlock()
	out, err := os.Create(log)
	if err != nil {
		ps.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, environ()
	// A session of its own, like a service: the kernel shares the processors among sessions.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		ps.Fatal(err)
	}
	p := &Process{Log: log, tb: ps, name: name, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.processes = append(ps.processes, p)
	return p
}

// PID is the process's ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running reports whether it runs.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// MustRun fails the test when the process has ended.
func (p *Process) MustRun() {
	p.tb.Helper()
	if !p.Running() {
		p.tb.Fatalf("%s has ended: %v", p.name, p.err)
	}
}

// Kill sends SIGKILL and waits for the end of the process.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// Stop sends SIGTERM, and fails the test when the process doesn't end within 20 s, or with an error.
func (p *Process) Stop() {
	p.tb.Helper()
	if err := p.Wait(syscall.SIGTERM, 20*time.Second); err != nil {
		p.tb.Errorf("%s didn't stop well: %v", p.name, err)
	}
}

// Wait sends s and returns how the process ended; after limit it is killed.
func (p *Process) Wait(s os.Signal, limit time.Duration) error {
	p.Signal(s)
	select {
	case <-p.done:
		return p.err
	case <-time.After(limit):
		p.Kill()
		return fmt.Errorf("not within %s", limit)
	}
}

// Output is the output so far.
func (p *Process) Output() string {
	raw, err := os.ReadFile(p.Log)
	if err != nil {
		p.tb.Fatal(err)
	}
	return string(raw)
}

// environ is this process's environment, without settings for a croft of the machine's own.
func environ() []string {
	out := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CROFT_") })
	return append(out, "CROFT_CONFIG=/dev/null")
}
