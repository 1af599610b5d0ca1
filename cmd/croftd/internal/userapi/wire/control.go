package wire

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Kind is the type of a message or frame.
type Kind byte

// The kinds of messages on the control socket.
const (
	Settings Kind = 'S'
	Hello    Kind = 'H'
	Proof    Kind = 'P'
	Link     Kind = 'L'
	Tunnel   Kind = 'T'
	Reached  Kind = 'R'
	Beat     Kind = 'B'
)

const (
	// maxMessage is the maximum size of a message with its head, headSize the head's, in bytes.
	maxMessage = 8192
	headSize   = 5
	// patience is how long the receiver may leave the socket full.
	patience = 5 * time.Second
)

// Message is a message on the control socket.
type Message struct {
	Kind   Kind
	Number uint32
	Body   []byte
	// File is sent along, from the agent to the door only.
	File *os.File
}

// lengths are the minimum and maximum size of a body that the door may send.
func (k Kind) lengths() (least, most int, ok bool) {
	switch k {
	case Hello:
		return KeySize, KeySize, true
	case Proof:
		return ChallengeSize, ChallengeSize, true
	case Link, Beat:
		return 0, 0, true
	case Reached:
		return 4, 4, true
	}
	return 0, 0, false
}

// The sizes of fields in the door's messages, in bytes.
const (
	KeySize       = 32
	ChallengeSize = 16
	BindingSize   = 32
)

// Control is one end of the control socket. Send is safe for concurrent use; the other methods aren't.
type Control struct {
	conn *net.UnixConn
	mu   sync.Mutex
}

// NewControl takes the socket over; the file is closed.
func NewControl(file *os.File) (*Control, error) {
	conn, err := Socket(file)
	if err != nil {
		return nil, err
	}
	return &Control{conn: conn}, nil
}

// Socket turns a unix socket's file into a connection, and closes the file.
func Socket(file *os.File) (*net.UnixConn, error) {
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, errors.Wrap(err, "cannot use a socket")
	}
	out, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, errors.New("cannot use a socket: it isn't a unix one")
	}
	return out, nil
}

// Close closes the socket.
func (c *Control) Close() error { return c.conn.Close() }

// Send sends a message whole. It waits up to 5 seconds for room; the caller keeps the file.
func (c *Control) Send(m Message) error {
	out := append(binary.BigEndian.AppendUint32([]byte{byte(m.Kind)}, m.Number), m.Body...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if m.File == nil {
		_, err := c.conn.Write(out)
		return err
	}
	raw, err := m.File.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Control(func(fd uintptr) {
		_, _, sendErr = c.conn.WriteMsgUnix(out, unix.UnixRights(int(fd)), nil)
	})
	if err == nil {
		err = sendErr
	}
	return err
}

// FromDoor waits for a valid message of the door. Descriptors sent along break the rules, and none is
// ever accepted.
func (c *Control) FromDoor() (Message, error) {
	m, _, err := c.receive(nil)
	if err != nil {
		return m, err
	}
	if least, most, ok := m.Kind.lengths(); !ok || len(m.Body) < least || len(m.Body) > most {
		return m, errors.Errorf("cannot take a message of the door: kind %d with %d bytes", m.Kind, len(m.Body))
	}
	return m, nil
}

// FromAgent waits for a message of the agent, perhaps with a file.
func (c *Control) FromAgent() (Message, error) {
	rights := make([]byte, unix.CmsgSpace(4))
	m, n, err := c.receive(rights)
	if err != nil || n == 0 {
		return m, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return m, errors.Errorf("cannot receive a descriptor: %d messages, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return m, errors.Errorf("cannot receive a descriptor: there are %d, %v", len(fds), err)
	}
	m.File = os.NewFile(uintptr(fds[0]), "handed over")
	return m, nil
}

func (c *Control) receive(rights []byte) (Message, int, error) {
	buf := make([]byte, maxMessage)
	n, have, flags, _, err := c.conn.ReadMsgUnix(buf, rights)
	switch {
	case err != nil:
		return Message{}, 0, err
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		return Message{}, 0, errors.New("cannot take a message: it is larger than allowed")
	case n == 0:
		return Message{}, 0, io.EOF
	case n < headSize:
		return Message{}, 0, errors.Errorf("cannot take a message: it has %d bytes", n)
	}
	return Message{Kind: Kind(buf[0]), Number: binary.BigEndian.Uint32(buf[1:]), Body: buf[headSize:n]}, have, nil
}

// Pair creates a socket pair of a type (unix.SOCK_STREAM, unix.SOCK_SEQPACKET): the agent's end, and
// the file to hand over.
func Pair(kind int) (*net.UnixConn, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, errors.Wrap(err, "cannot make a socket for the door")
	}
	theirs := os.NewFile(uintptr(pair[1]), "door")
	for _, fd := range pair {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, linkBuffer); err != nil {
			_ = unix.Close(pair[0])
			_ = theirs.Close()
			return nil, nil, errors.Wrap(err, "cannot bound a socket for the door")
		}
	}
	ours, err := Socket(os.NewFile(uintptr(pair[0]), "agent"))
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// linkBuffer is how many unread bytes of one side the kernel buffers; it doubles the number.
const linkBuffer = 64 << 10

// ControlOf makes the agent's end of a connection.
func ControlOf(conn *net.UnixConn) *Control { return &Control{conn: conn} }
