package admin

import (
	"bytes"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gomodule/redigo/redis"
)

// stream is a connection that reads from its Reader.
type stream struct{ io.Reader }

func (stream) Write(p []byte) (int, error)      { return len(p), nil }
func (stream) Close() error                     { return nil }
func (stream) LocalAddr() net.Addr              { return nil }
func (stream) RemoteAddr() net.Addr             { return nil }
func (stream) SetDeadline(time.Time) error      { return nil }
func (stream) SetReadDeadline(time.Time) error  { return nil }
func (stream) SetWriteDeadline(time.Time) error { return nil }

// hear is the client's result of a reply.
func hear(r io.Reader) (any, error) {
	return redis.NewConn(newGuard(stream{r}), time.Second, time.Second).Do("PING")
}

func TestGuardPassesReplies(t *testing.T) {
	for reply, want := range map[string]any{
		"+PONG\r\n": "PONG", "+\r\n": "", ":12\r\n": int64(12), "$-1\r\n": nil, "$0\r\n\r\n": []byte{}, "$3\r\na\nb\r\n": []byte("a\nb"),
		"*0\r\n": []any{}, "*-1\r\n": nil, "*2\r\n$1\r\na\r\n:5\r\n": []any{[]byte("a"), int64(5)},
		"$65536\r\n" + strings.Repeat("x", 65536) + "\r\n": bytes.Repeat([]byte("x"), 65536),
	} {
		for _, r := range []io.Reader{strings.NewReader(reply), iotest.OneByteReader(strings.NewReader(reply)), iotest.HalfReader(strings.NewReader(reply))} {
			if got, err := hear(r); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%.40q: %v, %v, want %v", reply, got, err, want)
			}
		}
	}
	if _, err := hear(strings.NewReader("-Namespace not found\r\n")); !reflect.DeepEqual(err, redis.Error("Namespace not found")) {
		t.Errorf("it is %v", err)
	}
}

// Replies for which the client would allocate memory, or recurse, before it sees
// that their content is missing.
func TestGuardStopsHostileReplies(t *testing.T) {
	for reply, want := range map[string]string{
		"$65537\r\n":                    "must be at most 65536",
		"$9223372036854775807\r\n":      "must be at most",
		"$92233720368547758080\r\n":     "must be at most",
		"$-2\r\n":                       "must be at most",
		"$x\r\n":                        "must be at most",
		"$\r\n":                         "its first line",
		"\r\n":                          "its first line",
		"\n\n":                          "its first line",
		"*65537\r\n":                    "must be at most 65536",
		"*1\r\n*1\r\n+x\r\n":            "an array in an array",
		strings.Repeat("*1\r\n", 1<<16): "an array in an array",
		"HTTP/1.1 400 Bad Request\r\n":  "its first line is \"HTTP",
		"+" + strings.Repeat("x", 5000): "longer than 4096",
		"*3\r\n$1\r\na\r\n$1\r\nb\r\n$99999999999\r\n": "must be at most",
		"+PONG\n": "its first line",
		strings.Repeat("$65536\r\n"+strings.Repeat("x", 65538), 2): "",
	} {
		for _, r := range []io.Reader{strings.NewReader(reply), iotest.OneByteReader(strings.NewReader(reply))} {
			got, err := hear(r)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: %v, %v, want it to say %q", reply, got, err, want)
			}
		}
	}
	all := "*65536\r\n" + strings.Repeat("$65536\r\n"+strings.Repeat("x", 65536)+"\r\n", 1100)
	if _, err := hear(strings.NewReader(all)); err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
		t.Errorf("it is %v", err)
	}
}

// FuzzGuard: for any reply, the client's result is no larger than the sent bytes,
// and nothing else goes wrong.
func FuzzGuard(f *testing.F) {
	for _, s := range []string{"+PONG\r\n", "*2\r\n$1\r\na\r\n:5\r\n", "$-1\r\n", "*1\r\n*1\r\n", "$3\r\nabc\r\n-x\r\n", "$70000\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		reply, err := hear(bytes.NewReader(sent))
		if size(reply) > len(sent) {
			t.Errorf("%q is heard as %v (%v)", sent, reply, err)
		}
		other, otherErr := hear(iotest.OneByteReader(bytes.NewReader(sent)))
		if err == nil && (otherErr != nil || !reflect.DeepEqual(reply, other)) {
			t.Errorf("%q is heard as %v at once, and in parts as %v, %v", sent, reply, other, otherErr)
		}
	})
}

func size(reply any) int {
	switch r := reply.(type) {
	case string:
		return len(r)
	case []byte:
		return len(r)
	case []any:
		n := len(r)
		for _, one := range r {
			n += size(one)
		}
		return n
	}
	return 0
}

func TestGuardPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	if _, err := hear(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("it is %v", err)
	}
}
