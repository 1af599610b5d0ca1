package containerd

import (
	"context"
	"net"
	"os"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// process watches a process that need not be a child of this one.
type process struct {
	pid  int
	done chan struct{}
	fd   *os.File
	once sync.Once
}

// watch opens a process: its pidfd is of that one, whoever gets the number later.
func watch(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot watch process %d", pid)
	}
	p := &process{pid: pid, done: make(chan struct{}), fd: os.NewFile(uintptr(fd), "pidfd")}
	conn, err := p.fd.SyscallConn()
	if err != nil {
		p.fd.Close()
		return nil, errors.Wrapf(err, "cannot watch process %d", pid)
	}
	go func() {
		// A pidfd can be read, by who polls it, once its process has ended.
		if conn.Read(func(fd uintptr) bool { return ended(int(fd)) }) == nil {
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

// signal sends the process a signal.
func (p *process) signal(s unix.Signal) error {
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

// close ends the watch. Done stays open unless the process has ended.
func (p *process) close() { p.once.Do(func() { p.fd.Close() }) }

// listener is the process that listens on a socket, nil when none does.
func listener(ctx context.Context, socket string) *process {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil
	}
	var cred *unix.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) { cred, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil || asked != nil || int(cred.Uid) != os.Geteuid() {
		return nil
	}
	p, err := watch(int(cred.Pid))
	if err != nil {
		return nil // it ended just now
	}
	return p
}
