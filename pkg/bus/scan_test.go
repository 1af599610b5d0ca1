package bus

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"
	"github.com/vmihailenco/msgpack"
	"pgregory.net/rapid"
)

func TestCheckFrame(t *testing.T) {
	nested := func(n int) []byte { return append(bytes.Repeat([]byte{0x91}, n), 0xc0) }
	for _, test := range []struct {
		name  string
		frame []byte
		want  string
	}{
		{"nil", []byte{0xc0}, ""},
		{"fixint", []byte{0x7f}, ""},
		{"negative fixint", []byte{0xe0}, ""},
		{"uint64", []byte("\xcf12345678"), ""},
		{"int64", []byte("\xd312345678"), ""},
		{"float", []byte("\xca1234"), ""},
		{"double", []byte("\xcb12345678"), ""},
		{"fixstr", []byte("\xa3abc"), ""},
		{"str 8", []byte("\xd9\x03abc"), ""},
		{"str 16", []byte("\xda\x00\x03abc"), ""},
		{"str 32", []byte("\xdb\x00\x00\x00\x03abc"), ""},
		{"bin 8", []byte("\xc4\x03abc"), ""},
		{"bin 32", []byte("\xc6\x00\x00\x00\x03abc"), ""},
		{"fixext 1", []byte("\xd4\x05a"), ""},
		{"fixext 16", []byte("\xd8\x05aaaaaaaabbbbbbbb"), ""},
		{"ext 8", []byte("\xc7\x02\x05ab"), ""},
		{"ext 16", []byte("\xc8\x00\x02\x05ab"), ""},
		{"array 16", []byte("\xdc\x00\x02\xc2\xc3"), ""},
		{"map 16", []byte("\xde\x00\x01\xa1a\xc0"), ""},
		{"map 32", []byte("\xdf\x00\x00\x00\x01\xa1a\xc0"), ""},
		{"32 deep", nested(MaxDepth), ""},
		{"33 deep", nested(MaxDepth + 1), "nests deeper than 32"},
		{"a million deep", nested(1 << 20), "nests deeper than 32"},
		{"maps 33 deep", append(bytes.Repeat([]byte{0x81, 0xa0}, MaxDepth+1), 0xc0), "nests deeper than 32"},
		{"empty", nil, "ends in the middle"},
		{"reserved code", []byte{0xc1}, "0xc1"},
		{"two values", []byte{0xc0, 0xc0}, "1 bytes after its value"},
		{"short string", []byte("\xa3ab"), "ends in the middle"},
		{"short length", []byte("\xdb\x00\x00"), "ends in the middle"},
		{"endless bin", []byte("\xc6\xff\xff\xff\xff"), "ends in the middle"},
		{"endless ext", []byte("\xc9\xff\xff\xff\xff"), "ends in the middle"},
		{"endless array", []byte("\xdd\xff\xff\xff\xff"), "ends before its 4294967295 items"},
		{"endless map", []byte("\xdf\xff\xff\xff\xff"), "ends before its 8589934590 items"},
		{"too many values", append([]byte{0xdd, 0, 4, 0, 1}, bytes.Repeat([]byte{0xc0}, MaxValues+1)...), "more than 262144 values"},
		{"too large", make([]byte, MaxFrame+1), "at most 4194304"},
	} {
		err := checkFrame(test.frame)
		if (test.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}

func TestWhatIsEncodedPassesTheCheck(t *testing.T) {
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
		if err := checkFrame(frame); err != nil {
			t.Fatalf("%x: %v", frame, err)
		}
	})
}

// What passes the check never panics the decoder, and what the decoder takes
// whole as a request is what the bare library takes.
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

func FuzzReadCommand(f *testing.F) {
	f.Add([]byte("*1\r\n$4\r\nPING\r\n"))
	f.Add([]byte("*3\r\n$5\r\nRPUSH\r\n$1\r\nk\r\n$1\r\nv\r\n"))
	f.Add([]byte("*2\r\n$-1\r\n"))
	f.Add([]byte("PING\r\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := newCommandReader(bytes.NewReader(sent))
		for range 100 {
			words, err := readCommand(r)
			if err != nil {
				return
			}
			if len(words) > maxCommandArguments {
				t.Errorf("%d words", len(words))
			}
		}
	})
}
