package handover

import (
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// listening fails unless file is a listening stream socket, of TCP or unix.
func listening(file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var checkErr error
	if err := raw.Control(func(fd uintptr) { checkErr = listeningSocket(int(fd)) }); err != nil {
		return err
	}
	return checkErr
}

func listeningSocket(fd int) error {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return errors.Wrap(err, "the descriptor isn't a socket")
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return err
	}
	accepts, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	switch {
	case err != nil:
		return err
	case kind != unix.SOCK_STREAM:
		return errors.Errorf("the socket is of type %d, must be a stream", kind)
	case domain != unix.AF_INET && domain != unix.AF_INET6 && domain != unix.AF_UNIX:
		return errors.Errorf("the socket is of domain %d, must be of IPv4, IPv6 or unix", domain)
	case accepts != 1:
		return errors.New("the socket doesn't listen")
	}
	return nil
}

// whichListen are those of files that listen; the others are closed.
func whichListen(files []*os.File) []*os.File {
	out := files[:0]
	for _, f := range files {
		if listening(f) == nil {
			out = append(out, f)
		} else {
			_ = f.Close()
		}
	}
	return out
}
