package discard

import (
	"encoding/binary"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/confine"
)

// numberBytes is the length of a descriptor's number in a message.
const numberBytes = 4

// errGone is the error of receive when there is nothing to serve.
var errGone = errors.New("the VM's process has ended")

// given is what a discarder serves.
type given struct {
	listener confine.Listener
	disks    []int
	// first is the number of the first disk in the process that sends it.
	first int
}

// send hands the listener and the disks to the discarder: one message.
func send(socket int, listener confine.Listener, disks []int) error {
	text := binary.NativeEndian.AppendUint32(nil, uint32(disks[0]))
	rights := unix.UnixRights(append([]int{listener.Descriptor()}, disks...)...)
	return errors.Wrap(unix.Sendmsg(socket, text, rights, nil, unix.MSG_NOSIGNAL), "cannot hand over a VM's disks")
}

// receive waits for what send sends.
func receive(socket int) (given, error) {
	text, rights := make([]byte, numberBytes), make([]byte, unix.CmsgSpace(4*(1+mostDisks)))
	n, have, flags, err := receiveMessage(socket, text, rights)
	if err != nil {
		return given{}, errors.Wrap(err, "cannot receive a VM's disks")
	}
	if n == 0 {
		return given{}, errGone
	}
	if n != numberBytes || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return given{}, errors.Errorf("cannot receive a VM's disks: the message has %d bytes, must have %d, and at most %d disks", n, numberBytes, mostDisks)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:have])
	if err != nil || len(messages) != 1 {
		return given{}, errors.Errorf("cannot receive a VM's disks: %d messages, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) < 2 {
		return given{}, errors.Errorf("cannot receive a VM's disks: %d descriptors, %v", len(fds), err)
	}
	return given{confine.NewListener(fds[0]), fds[1:], int(binary.NativeEndian.Uint32(text))}, nil
}

func receiveMessage(socket int, text, rights []byte) (n, have, flags int, err error) {
	for {
		n, have, flags, _, err = unix.Recvmsg(socket, text, rights, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			return n, have, flags, err
		}
	}
}
