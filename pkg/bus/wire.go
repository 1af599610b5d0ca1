package bus

import (
	"strings"

	"github.com/pkg/errors"
	"github.com/threefoldtech/zbus"
	"github.com/vmihailenco/msgpack"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
)

// maxErrorText is the most of an error's text that is sent.
const maxErrorText = 8 << 10

// request is zbus.Request followed by the members that only this package uses.
// The bare library skips unknown keys.
type request struct {
	ID      string
	Inputs  [][]byte
	Object  zbus.ObjectID
	ReplyTo string
	Method  string
	// Deadline is on the monotonic clock of the boot that Boot names.
	Boot     string `msgpack:",omitempty"`
	Deadline int64  `msgpack:",omitempty"`
}

// reply is zbus.Response with the kinds of its errors.
type reply struct {
	ID     string
	Output output
	// Error is set when the method could not be called at all.
	Error *string
	Kind  string `msgpack:",omitempty"`
}

type output struct {
	Data []byte
	// Error is the method's own.
	Error *callError
}

type callError struct {
	Message string
	Kind    string `msgpack:",omitempty"`
}

// failure is the error that a reply carries, nil when it carries none.
func (r *reply) failure() error {
	switch {
	case r.Error != nil:
		return wireError(r.Kind, *r.Error)
	case r.Output.Error != nil:
		return wireError(r.Output.Error.Kind, r.Output.Error.Message)
	}
	return nil
}

func wireError(kind, message string) error {
	k := node.Kind(kind)
	if !k.Known() {
		k = node.Internal
	}
	if message == "" {
		message = "the call failed without saying why"
	}
	return &node.Error{Kind: k, Message: message}
}

// errorText is the part of an error's text that is sent.
func errorText(err error) string {
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if text == "" {
		return "the method failed without saying why"
	}
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + " …"
	}
	return text
}

// encode never panics and never returns more than a frame may hold.
func encode(v any) (frame []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.Errorf("cannot encode %T: %v", v, p)
		}
	}()
	frame, err = msgpack.Marshal(v)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot encode %T", v)
	}
	if len(frame) > MaxFrame {
		return nil, errors.Errorf("cannot send %T: %d bytes are more than the %d that are allowed", v, len(frame), MaxFrame)
	}
	return frame, nil
}

// decode first checks the frame's bounds and never panics.
func decode(frame []byte, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.Errorf("cannot decode %T: %v", v, p)
		}
	}()
	if err := transport.CheckFrame(frame); err != nil {
		return err
	}
	if err := msgpack.Unmarshal(frame, v); err != nil {
		return errors.Wrapf(err, "cannot decode %T", v)
	}
	return nil
}

func encodeArguments(args []any) ([][]byte, error) {
	if len(args) > MaxArguments {
		return nil, errors.Errorf("cannot pass %d arguments: at most %d are allowed", len(args), MaxArguments)
	}
	inputs := make([][]byte, 0, len(args))
	for i, arg := range args {
		in, err := encode(arg)
		if err != nil {
			return nil, errors.Wrapf(err, "cannot pass argument %d", i)
		}
		inputs = append(inputs, in)
	}
	return inputs, nil
}
