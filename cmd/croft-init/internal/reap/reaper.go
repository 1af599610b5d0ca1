package reap

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/pkg/errors"
)

// Program is a program to start.
type Program struct {
	// Path is the file, Args the arguments, beginning with its name.
	Path string
	Args []string
	Env  []string
	// Files are its standard input, output and error.
	Files []uintptr
	// Terminal makes the first of Files its controlling terminal.
	Terminal bool
}

// Reaper collects children that have ended.
type Reaper struct {
	// mu is held while a child is started or collected, so that no child is collected before it is
	// registered.
	mu       sync.Mutex
	children map[int]*Child
}

// New returns a reaper without children.
func New() *Reaper { return &Reaper{children: map[int]*Child{}} }

// Run collects children as they end, until ctx is done.
func (r *Reaper) Run(ctx context.Context) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGCHLD)
	defer signal.Stop(changes)
	for {
		for r.collect() {
		}
		select {
		case <-ctx.Done():
			return
		case <-changes:
		}
	}
}

// collect collects one child that has ended, and reports whether there was one.
func (r *Reaper) collect() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	if err != nil {
		return errors.Is(err, syscall.EINTR)
	}
	if pid <= 0 {
		return false
	}
	if child, ok := r.children[pid]; ok {
		delete(r.children, pid)
		child.code = exitCode(status)
		close(child.done)
	}
	return true
}

// Start starts a program as the leader of a session, and process group, of its own.
func (r *Reaper) Start(p Program) (*Child, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(p.Path, p.Args, &syscall.ProcAttr{
		Env: p.Env, Files: p.Files, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: p.Terminal},
	})
	if err != nil {
		return nil, errors.Wrapf(err, "cannot start %s", p.Path)
	}
	child := &Child{PID: pid, reaper: r, done: make(chan struct{})}
	r.children[pid] = child
	return child, nil
}

// exitCode is the status as shells report it.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
