package bus

import (
	"bytes"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"
	"github.com/vmihailenco/msgpack"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/bus/transport"
)

func TestEncodedFramesPassTheCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := struct {
			S    string
			B    []byte
			L    []string
			M    map[string]uint64
			I    int64
			U    uint8
			F    float64
			When time.Time
		}{
			rapid.String().Draw(t, "s"), rapid.SliceOf(rapid.Byte()).Draw(t, "b"), rapid.SliceOf(rapid.String()).Draw(t, "l"),
			rapid.MapOf(rapid.String(), rapid.Uint64()).Draw(t, "m"), rapid.Int64().Draw(t, "i"), rapid.Byte().Draw(t, "u"),
			rapid.Float64().Draw(t, "f"), time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "when"), 5),
		}
		frame, err := encode(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := transport.CheckFrame(frame); err != nil {
			t.Fatalf("%x: %v", frame, err)
		}
	})
}

// A frame that passes the check never panics the decoder, and a frame that decodes
// as a request decodes alike with the bare library.
func FuzzDecode(f *testing.F) {
	inputs, err := encodeArguments([]any{"a", 1, []byte("x"), map[string]string{"k": "v"}})
	if err != nil {
		f.Fatal(err)
	}
	for _, v := range []any{
		&request{ID: "i", Inputs: inputs, Object: Object("o", "1"), ReplyTo: "r", Method: "M", Boot: "b", Deadline: 5},
		&reply{ID: "i", Output: output{Data: []byte{0xc0}, Error: &callError{Message: "m", Kind: "Busy"}}, Kind: "x"},
		zbus.Status{Workers: []zbus.WorkerStatus{{StartTime: time.Unix(1, 0)}}},
	} {
		frame, err := encode(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(frame)
	}
	f.Add(bytes.Repeat([]byte{0x91}, 100))
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, frame []byte) {
		req := &request{}
		if err := decode(frame, req); err == nil {
			var bare zbus.Request
			if err := msgpack.Unmarshal(frame, &bare); err != nil {
				t.Errorf("the bare library can't read %x: %v", frame, err)
			}
			if bare.ID != req.ID || bare.Method != req.Method || bare.ReplyTo != req.ReplyTo || bare.Object != req.Object {
				t.Errorf("the bare library reads %x as %+v, we as %+v", frame, bare, req)
			}
		}
		_ = decode(frame, &reply{})
		_ = decode(frame, &zbus.Status{})
	})
}
