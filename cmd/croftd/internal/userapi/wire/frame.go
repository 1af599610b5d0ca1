package wire

import (
	"encoding/binary"
	"io"

	"github.com/pkg/errors"
)

// The kinds of frames on a link.
const (
	Connection Kind = 'C'
	Request    Kind = 'Q'
	Stayed     Kind = 'Y'
	Head       Kind = 'h'
	Body       Kind = 'b'
	Flush      Kind = 'f'
	End        Kind = 'e'
	Upgrade    Kind = 'u'
	Stay       Kind = 's'
)

const (
	// MaxRequest is the maximum size of a request with its body of MaxBody, in bytes.
	MaxRequest = MaxBody + 32<<10
	// MaxBody is the maximum size of a request's body.
	MaxBody = 64 << 10
	// MaxPart is the maximum size of a Body frame of an answer.
	MaxPart = 32 << 10
	// maxRemote bounds a connection's remote address, maxUser a user's name.
	maxRemote = 64
	maxUser   = 256
	maxHead   = 16 << 10
	// MaxProofs is how many signatures the door may have requested at a time.
	MaxProofs = 4
)

// bounds are the minimum and maximum length of a frame of this kind.
func (k Kind) bounds(door bool) (least, most uint32, ok bool) {
	if door {
		switch k {
		case Connection:
			return BindingSize + 1, BindingSize + maxRemote, true
		case Request:
			return 1, MaxRequest, true
		case Stayed:
			return 1, 1, true
		}
		return 0, 0, false
	}
	switch k {
	case Head:
		return 2, maxHead, true
	case Body:
		return 1, MaxPart, true
	case Flush, End, Upgrade:
		return 0, 0, true
	case Stay:
		return 1, maxUser, true
	}
	return 0, 0, false
}

// Frame is a frame on a link.
type Frame struct {
	Kind    Kind
	Payload []byte
}

// ReadHead reads the head of a frame sent by the door (or else the agent), and refuses a forbidden kind
// or length before the payload is read.
func ReadHead(r io.Reader, door bool) (Kind, uint32, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, err
	}
	kind, length := Kind(head[0]), binary.BigEndian.Uint32(head[1:])
	if least, most, ok := kind.bounds(door); !ok || length < least || length > most {
		return 0, 0, errors.Errorf("cannot take a frame: kind %d with %d bytes", kind, length)
	}
	return kind, length, nil
}

// ReadFrame reads a frame of the agent into buffer, which holds MaxPart bytes.
func ReadFrame(r io.Reader, buffer []byte) (Frame, error) {
	kind, length, err := ReadHead(r, false)
	if err != nil {
		return Frame{}, err
	}
	_, err = io.ReadFull(r, buffer[:length])
	return Frame{kind, buffer[:length]}, err
}

// WriteFrame writes a frame, in one write when w isn't buffered.
func WriteFrame(w io.Writer, kind Kind, payload []byte) error {
	out := make([]byte, 0, headSize+len(payload))
	out = binary.BigEndian.AppendUint32(append(out, byte(kind)), uint32(len(payload)))
	_, err := w.Write(append(out, payload...))
	return err
}
