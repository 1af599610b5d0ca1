package handover

import (
	"bytes"
	"net"
	"os"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// patience is the deadline for the rest of a line that has begun, and for sending one.
const patience = 5 * time.Second

// line is a received message with its descriptors.
type line struct {
	text  []byte
	files []*os.File
}

// close closes the descriptors.
func (l line) close() {
	for _, f := range l.files {
		_ = f.Close()
	}
}

// receive reads one line with at most that many descriptors. It has to begin by begun,
// the zero time for no deadline. Nothing may follow it: the sender waits for an answer.
// After an error all descriptors are closed.
func receive(conn *net.UnixConn, begun time.Time, files int) (line, error) {
	var l line
	err := l.read(conn, begun, files)
	if err != nil {
		l.close()
		return line{}, err
	}
	return l, nil
}

func (l *line) read(conn *net.UnixConn, begun time.Time, files int) error {
	if err := conn.SetReadDeadline(begun); err != nil {
		return err
	}
	buf := make([]byte, maxLine)
	// Room for one too many, to see that there are.
	oob := make([]byte, unix.CmsgSpace(4*(files+1)))
	for {
		n, oobn, flags, _, err := conn.ReadMsgUnix(buf[len(l.text):], oob)
		if oobErr := l.collect(oob[:oobn]); oobErr != nil {
			return oobErr
		}
		switch {
		case err != nil:
			return err
		case flags&unix.MSG_CTRUNC != 0 || len(l.files) > files:
			return errors.Errorf("cannot take a message: more than %d descriptors came with it", files)
		case n == 0:
			return errors.New("cannot read a message: the other end has closed in the middle of it")
		}
		l.text = buf[:len(l.text)+n]
		if end := bytes.IndexByte(l.text, '\n'); end >= 0 && end < len(l.text)-1 {
			return errors.New("cannot take a message: more follows without an answer")
		} else if end >= 0 {
			return nil
		}
		if len(l.text) == maxLine {
			return errors.Errorf("cannot take a message: it is longer than %d bytes", maxLine)
		}
		if begun.IsZero() {
			begun = time.Now().Add(patience)
			if err := conn.SetReadDeadline(begun); err != nil {
				return err
			}
		}
	}
}

// collect takes the descriptors out of control messages.
func (l *line) collect(oob []byte) error {
	if len(oob) == 0 {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return errors.Wrap(err, "cannot read the control data of a message")
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SCM_RIGHTS {
			continue
		}
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return errors.Wrap(err, "cannot read the descriptors that came with a message")
		}
		for _, fd := range fds {
			l.files = append(l.files, os.NewFile(uintptr(fd), "handed over"))
		}
	}
	return nil
}

// send writes one line with its descriptors, which stay the caller's.
func send(conn *net.UnixConn, by time.Time, text []byte, files []*os.File) error {
	if err := conn.SetWriteDeadline(by); err != nil {
		return err
	}
	if len(files) == 0 {
		_, err := conn.Write(text)
		return err
	}
	fds := make([]int, len(files))
	return with(files, fds, func() error {
		n, _, err := conn.WriteMsgUnix(text, unix.UnixRights(fds...), nil)
		if err == nil && n < len(text) {
			_, err = conn.Write(text[n:])
		}
		return err
	})
}

// with calls do while the descriptors of files stand in fds. Fd would do too,
// but may make an open file that others share a blocking one.
func with(files []*os.File, fds []int, do func() error) error {
	if len(files) == 0 {
		return do()
	}
	raw, err := files[0].SyscallConn()
	if err != nil {
		return err
	}
	var doErr error
	err = raw.Control(func(fd uintptr) {
		fds[0] = int(fd)
		doErr = with(files[1:], fds[1:], do)
	})
	if err == nil {
		err = doErr
	}
	return err
}
