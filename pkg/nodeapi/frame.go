package nodeapi

import (
	"encoding/binary"
	"io"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// Kind is the kind of a frame's content.
type Kind byte

// The kinds of frame.
const (
	// Stdin, Stdout and Stderr hold bytes of the stream, at least one.
	Stdin  Kind = 1
	Stdout Kind = 2
	Stderr Kind = 3
	// Resize holds width and height, 2 bytes each.
	Resize Kind = 4
	// Exit holds the exit code, 4 bytes. Nothing follows it.
	Exit Kind = 5
	// CloseStdin is empty: stdin has ended.
	CloseStdin Kind = 6
	// Failure holds a Trailer as JSON. Nothing follows it.
	Failure Kind = 7
	// Ping is empty and tells that the sender is alive.
	Ping Kind = 8
	// Credit holds 4 bytes: the number of further bytes of stdin that may be sent.
	Credit Kind = 9
)

// MaxFrame is the largest content of a frame, in bytes, beside its head.
const MaxFrame = 64 << 10

// headSize is the size of a frame's head: its kind, then its length.
const headSize = 5

// Frame is one piece of a stream: kind (1 byte), length (4 bytes, big-endian), bytes.
type Frame struct {
	Kind    Kind
	Payload []byte
}

// check refuses a length that no frame of its kind has.
func (k Kind) check(length uint32) error {
	least, most := uint32(0), uint32(0)
	switch k {
	case Stdin, Stdout, Stderr:
		least, most = 1, MaxFrame
	case Resize, Exit, Credit:
		least, most = 4, 4
	case Failure:
		least, most = 2, MaxFrame
	case CloseStdin, Ping:
	default:
		return node.Errorf(node.Invalid, "cannot read frame: its kind is %d, which isn't known", k)
	}
	if length < least || length > most {
		return node.Errorf(node.Invalid, "cannot read frame of kind %d: its length is %d, must be %d to %d", k, length, least, most)
	}
	return nil
}

// ReadFrame reads one frame. Its payload lies in buffer, which has room for
// MaxFrame, and is overwritten by the next. The error is io.EOF where the
// stream ends between two frames. A length that isn't allowed is refused before
// anything of that length is read.
func ReadFrame(r io.Reader, buffer []byte) (Frame, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if err == io.EOF {
			return Frame{}, io.EOF
		}
		return Frame{}, errors.Wrap(err, "cannot read frame")
	}
	f := Frame{Kind: Kind(head[0])}
	length := binary.BigEndian.Uint32(head[1:])
	if err := f.Kind.check(length); err != nil {
		return Frame{}, err
	}
	f.Payload = buffer[:length]
	if _, err := io.ReadFull(r, f.Payload); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, errors.Wrap(err, "cannot read frame")
	}
	return f, nil
}

// AppendFrame appends f to out.
func AppendFrame(out []byte, f Frame) []byte {
	out = append(out, byte(f.Kind))
	out = binary.BigEndian.AppendUint32(out, uint32(len(f.Payload)))
	return append(out, f.Payload...)
}

// size reads a Resize frame.
func (f Frame) size() Size {
	return Size{Width: binary.BigEndian.Uint16(f.Payload), Height: binary.BigEndian.Uint16(f.Payload[2:])}
}

func sizeFrame(s Size) Frame {
	return Frame{Resize, binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, s.Width), s.Height)}
}

// number reads an Exit or Credit frame.
func (f Frame) number() uint32 { return binary.BigEndian.Uint32(f.Payload) }

func numberFrame(k Kind, n uint32) Frame {
	return Frame{k, binary.BigEndian.AppendUint32(nil, n)}
}
