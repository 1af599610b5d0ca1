package carrier

import (
	"os"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/supervise"
)

// Process watches a process that isn't a child of this one.
type Process struct {
	pid  int
	done chan struct{}
	fd   *os.File
	once sync.Once
}

// Watch opens a process: its pidfd keeps to it when another process gets the number.
func Watch(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot watch process %d", pid)
	}
	p := &Process{pid: pid, done: make(chan struct{}), fd: os.NewFile(uintptr(fd), "pidfd")}
	conn, err := p.fd.SyscallConn()
	if err != nil {
		p.fd.Close()
		return nil, errors.Wrapf(err, "cannot watch process %d", pid)
	}
	go func() {
		// Polling finds a pidfd readable once its process has ended.
		err := supervise.Catch("carrier watch", func() error { return conn.Read(func(fd uintptr) bool { return ended(int(fd)) }) })
		if err == nil {
			close(p.done)
		}
	}()
	return p, nil
}

func ended(fd int) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n == 1
}

// Signal sends the process a signal.
func (p *Process) Signal(s unix.Signal) error {
	var sent error
	conn, err := p.fd.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), s, nil, 0) })
	}
	if err == nil {
		err = sent
	}
	return errors.Wrapf(err, "cannot signal process %d", p.pid)
}

// Close ends the watch. Done stays open unless the process has ended.
func (p *Process) Close() { p.once.Do(func() { p.fd.Close() }) }

// PID is its process ID.
func (p *Process) PID() int { return p.pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }
