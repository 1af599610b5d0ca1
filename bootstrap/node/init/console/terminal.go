package console

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// vtGetState is VT_GETSTATE of the kernel's vt.h, which x/sys lacks.
const vtGetState = 0x5603

// writeIn is how long a terminal may take to show something. One that is stopped, by Scroll Lock or by its other end, delays nothing else.
const writeIn = 2 * time.Second

// errNone is the cause when a terminal isn't there at all.
var errNone = errors.New("the machine has no such terminal")

// device is an open terminal. Keys come as they are pressed, without an echo, and none of them is a signal.
type device struct {
	file   *os.File
	before unix.Termios
	// number is that of a Linux VT, 0 for another terminal.
	number uint16
}

// openDevice opens a terminal, not as this process' own, and doesn't wait for a carrier.
func openDevice(path string) (*device, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EIO) {
			err = errors.WithMessage(errNone, err.Error())
		}
		return nil, errors.Wrap(err, "cannot open the terminal")
	}
	d := &device{file: f}
	if n, err := strconv.ParseUint(strings.TrimPrefix(filepath.Base(path), "tty"), 10, 16); err == nil {
		d.number = uint16(n)
	}
	err = d.control(func(fd int) error {
		before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return errors.WithMessage(errNone, err.Error()) // a serial port without hardware
		}
		d.before = *before
		raw := *before
		raw.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG | unix.IEXTEN
		raw.Iflag &^= unix.IXON | unix.ICRNL
		raw.Oflag |= unix.OPOST | unix.ONLCR
		raw.Cflag |= unix.CLOCAL | unix.CREAD
		raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
		return unix.IoctlSetTermios(fd, unix.TCSETS, &raw)
	})
	if err != nil {
		_ = f.Close()
		return nil, errors.Wrapf(err, "cannot use %s as a terminal", path)
	}
	return d, nil
}

// control calls f with the file's descriptor. (*os.File).Fd would take its deadlines.
func (d *device) control(f func(fd int) error) error {
	raw, err := d.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// close brings the terminal back into the state in which it was found, and ends a Read.
func (d *device) close() {
	_ = d.control(func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETS, &d.before) })
	_ = d.file.Close()
}

// size is the terminal's now; a terminal that doesn't know it, such as a serial line, is the smallest.
func (d *device) size() (width, height int) {
	var w *unix.Winsize
	err := d.control(func(fd int) (err error) {
		w, err = unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		return err
	})
	if err != nil || w.Col == 0 || w.Row == 0 {
		return leastWidth, leastHeight
	}
	return int(w.Col), int(w.Row)
}

// seen is whether the terminal is the one that the machine's screen shows. One that isn't a VT always is.
func (d *device) seen() bool {
	if d.number == 0 {
		return true
	}
	active := uint16(0)
	err := d.control(func(fd int) (err error) {
		active, err = activeVT(fd)
		return err
	})
	return err != nil || active == d.number
}

// write writes all of it, or fails in a bounded time.
func (d *device) write(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	if err := d.file.SetWriteDeadline(time.Now().Add(writeIn)); err != nil {
		return err
	}
	_, err := d.file.Write(text)
	return err
}
