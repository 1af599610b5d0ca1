package resp_test

import (
	"bytes"
	"math"
	"strconv"
	"testing"

	"github.com/gomodule/redigo/redis"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/resp"
)

func TestReplies(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"bulk", resp.AppendBulk(nil, []byte("a\r\nb")), "$4\r\na\r\nb\r\n"},
		{"bulk of a string", resp.AppendBulkString(nil, "ab"), "$2\r\nab\r\n"},
		{"empty bulk", resp.AppendBulk(nil, nil), "$0\r\n\r\n"},
		{"null", resp.AppendNull(nil), "$-1\r\n"},
		{"zero", resp.AppendInt(nil, 0), ":0\r\n"},
		{"least", resp.AppendInt(nil, math.MinInt64), ":" + strconv.Itoa(math.MinInt64) + "\r\n"},
		{"array", resp.AppendArray(nil, 12), "*12\r\n"},
		{"line", resp.AppendSimple(nil, "OK"), "+OK\r\n"},
		{"error", resp.AppendError(nil, "Key not found"), "-Key not found\r\n"},
		{"behind", resp.AppendInt([]byte("+OK\r\n"), 7), "+OK\r\n:7\r\n"},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}

// The parser reads redigo's requests, and redigo reads appended replies.
func TestClientsUnderstand(t *testing.T) {
	limits := &resp.Limits{Argument: 1 << 20, Arguments: 64, Request: 4 << 20}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 1, 20).Draw(t, "arguments")
		var wire bytes.Buffer
		conn := redis.NewConn(pipe{&wire}, 0, 0)
		args := make([]any, 0, len(want))
		for _, a := range want[1:] {
			args = append(args, a)
		}
		if err := conn.Send(string(want[0]), args...); err != nil {
			t.Fatal(err)
		}
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
		var p resp.Parser
		got, n, err := p.Next(wire.Bytes(), nil, limits)
		if err != nil || n != wire.Len() || !equal(got, want) {
			t.Fatalf("read %q, %d of %d bytes, %v; want %q", got, n, wire.Len(), err, want)
		}
		out := resp.AppendArray(nil, len(want))
		for _, a := range want {
			out = resp.AppendBulk(out, a)
		}
		wire.Reset()
		wire.Write(out)
		back, err := redis.ByteSlices(redis.NewConn(pipe{&wire}, 0, 0).Receive())
		if err != nil || !equal(back, want) {
			t.Fatalf("redigo read %q, %v; want %q", back, err, want)
		}
	})
}

func equal(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}
