package console

import (
	"os"
	"sync"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croft-init/internal/reap"
)

// How long a program may leave its input unread before further input is dropped: the first time, and
// after that has happened.
const (
	firstPatience = 10 * time.Second
	laterPatience = 100 * time.Millisecond
)

// rest is how long output is still read after the shell has ended.
const rest = 200 * time.Millisecond

// Size is a terminal's size, in characters.
type Size struct {
	Columns uint16 `json:"columns"`
	Rows    uint16 `json:"rows"`
}

// Console is a shell on a terminal.
type Console struct {
	master *os.File
	shell  *reap.Child
	stuck  bool
	once   sync.Once
}

// Open starts the shell at path on a new terminal.
func Open(r *reap.Reaper, path string, size Size) (*Console, error) {
	master, terminal, err := openTerminal()
	if err != nil {
		return nil, err
	}
	defer unix.Close(terminal)
	c := &Console{master: master}
	if err = c.Resize(size); err == nil {
		fd := uintptr(terminal)
		c.shell, err = r.Start(reap.Program{
			Path: path, Args: []string{path}, Env: environment(os.Environ(), path), Files: []uintptr{fd, fd, fd}, Terminal: true,
		})
	}
	if err != nil {
		master.Close()
		return nil, err
	}
	return c, nil
}

// openTerminal makes a pseudo terminal. Its master is non-blocking, so that closing it ends a read; the
// other end is opened through the master, wherever /dev/pts is.
func openTerminal() (*os.File, int, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, errors.Wrap(err, "cannot open /dev/ptmx")
	}
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		unix.Close(fd)
		return nil, 0, errors.Wrap(err, "cannot unlock a terminal")
	}
	peer, _, number := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if number != 0 {
		unix.Close(fd)
		return nil, 0, errors.Wrap(number, "cannot open a terminal's other end")
	}
	return os.NewFile(uintptr(fd), "/dev/ptmx"), int(peer), nil
}

// Read reads the output of the terminal's programs. It fails once all of them have gone.
func (c *Console) Read(p []byte) (int, error) { return c.master.Read(p) }

// Write writes typed input. Input that no program reads is lost, as on any terminal. Write isn't safe
// for concurrent use.
func (c *Console) Write(p []byte) error {
	patience := firstPatience
	if c.stuck {
		patience = laterPatience
	}
	if err := c.master.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return errors.Wrap(err, "cannot write to the terminal")
	}
	_, err := c.master.Write(p)
	c.stuck = errors.Is(err, os.ErrDeadlineExceeded)
	if c.stuck {
		return nil
	}
	return errors.Wrap(err, "cannot write to the terminal")
}

// Resize sets the terminal's size.
func (c *Console) Resize(s Size) error {
	raw, err := c.master.SyscallConn()
	if err != nil {
		return errors.Wrap(err, "cannot resize the terminal")
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Columns})
	})
	if err == nil {
		err = failed
	}
	return errors.Wrap(err, "cannot resize the terminal")
}

// Done is closed when the shell has ended.
func (c *Console) Done() <-chan struct{} { return c.shell.Done() }

// Code is the shell's exit code, after Done.
func (c *Console) Code() int { return c.shell.Code() }

// Drain lets Read continue for a moment, for the last output.
func (c *Console) Drain() error { return c.master.SetReadDeadline(time.Now().Add(rest)) }
