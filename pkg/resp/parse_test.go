package resp_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/resp"
)

var zdbLimits = resp.Limits{Argument: 8 << 20, Arguments: 1024, Request: 16 << 20}

func TestRequests(t *testing.T) {
	for _, c := range []struct {
		name, wire string
		want       []string
		left       string
		err        error
	}{
		{name: "one", wire: "*1\r\n$4\r\nPING\r\n", want: []string{"PING"}},
		{name: "two", wire: "*2\r\n$3\r\nGET\r\n$1\r\nx\r\n*1\r\n", want: []string{"GET", "x"}, left: "*1\r\n"},
		{name: "empty argument", wire: "*2\r\n$3\r\nSET\r\n$0\r\n\r\n", want: []string{"SET", ""}},
		{name: "bare LF", wire: "*1\n$4\nPING\r\n", want: []string{"PING"}},
		{name: "two bytes behind are whatever", wire: "*1\r\n$4\r\nPINGXX", want: []string{"PING"}},
		{name: "as atoi reads", wire: "* +1x\r\n$\t04;\r\nPING\r\n", want: []string{"PING"}},
		{name: "no digits are zero", wire: "*2\r\n$1\r\nx\r\n$\r\n\r\n", want: []string{"x", ""}},
		{name: "not complete", wire: "*1\r\n$4\r\nPING\r", left: "*1\r\n$4\r\nPING\r"},
		{name: "nothing", wire: ""},
		{name: "inline", wire: "PING\r\n", err: resp.ErrNotArray},
		{name: "garbage", wire: "\x00\x01\x02\r\n", err: resp.ErrNotArray},
		{name: "one byte of garbage", wire: "\x00", err: resp.ErrNotArray},
		{name: "line without an end", wire: "*" + strings.Repeat("0", 31), err: resp.ErrNotArray},
		{name: "length without an end", wire: "*1\r\n$" + strings.Repeat("0", 31), err: resp.ErrNotBulk},
		{name: "no arguments", wire: "*0\r\n", err: resp.ErrNoCount},
		{name: "negative count", wire: "*-1\r\n", err: resp.ErrNoCount},
		{name: "too many", wire: "*1025\r\n", err: resp.ErrManyArgs},
		{name: "far too many", wire: "*99999999999999999999\r\n", err: resp.ErrManyArgs},
		{name: "integer argument", wire: "*1\r\n:1\r\n", err: resp.ErrNotBulk},
		{name: "integer argument, of more", wire: "*2\r\n:", err: resp.ErrNotBulk},
		{name: "null argument", wire: "*1\r\n$-1\r\n", err: resp.ErrNotBulk},
		{name: "too large", wire: "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8388609\r\n", err: resp.ErrTooBig},
		{name: "far too large", wire: "*1\r\n$18446744073709551617\r\n", err: resp.ErrTooBig},
	} {
		t.Run(c.name, func(t *testing.T) {
			for step := 1; step <= len(c.wire)+1; step++ {
				got, left, err := feed([]byte(c.wire), zdbLimits, func() int { return step })
				if !errors.Is(err, c.err) || err == nil && (strings.Join(got, "\n") != strings.Join(c.want, "\n") || left != c.left) {
					t.Fatalf("in pieces of %d: %q, left %q, %v; want %q, %q, %v", step, got, left, err, c.want, c.left, c.err)
				}
			}
		})
	}
}

// feed gives a parser the bytes in pieces and returns the first request, and the
// rest behind it.
func feed(wire []byte, l resp.Limits, piece func() int) ([]string, string, error) {
	var p resp.Parser
	for have := 0; ; {
		have = min(have+piece(), len(wire))
		// The buffer may be moved in between.
		buf := append([]byte(nil), wire[:have]...)
		args, n, err := p.Next(buf, nil, &l)
		if err != nil {
			return nil, "", err
		}
		if n > 0 {
			var out []string
			for _, a := range args {
				out = append(out, string(a))
			}
			return out, string(wire[n:]), nil
		}
		if len(args) > 0 {
			panic("arguments of a request that isn't complete")
		}
		if p.Need() <= have {
			panic(fmt.Sprintf("%d bytes are needed, there were %d", p.Need(), have))
		}
		if have == len(wire) {
			return nil, string(wire), nil
		}
	}
}

func TestWholeRequestIsLimited(t *testing.T) {
	wire := "*3\r\n" + strings.Repeat("$100\r\n"+strings.Repeat("x", 100)+"\r\n", 3)
	for size, want := range map[int64]error{int64(len(wire)): nil, int64(len(wire)) - 1: resp.ErrWholeSize} {
		_, _, err := feed([]byte(wire), resp.Limits{Argument: 100, Arguments: 3, Request: size}, func() int { return len(wire) })
		if !errors.Is(err, want) {
			t.Errorf("%d bytes with a limit of %d: %v, want %v", len(wire), size, err, want)
		}
	}
}

// Need never exceeds the needed bytes: a caller that waits for more would wait
// for ever.
func TestNeedIsHonest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wire []byte
		args := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 40), 1, 8).Draw(t, "arguments")
		wire = resp.AppendArray(wire, len(args))
		for _, a := range args {
			wire = resp.AppendBulk(wire, a)
		}
		var p resp.Parser
		for have := 0; ; {
			_, n, err := p.Next(wire[:have], nil, &zdbLimits)
			if err != nil {
				t.Fatal(err)
			}
			if n > 0 {
				return
			}
			if have = p.Need(); have > len(wire) {
				t.Fatalf("%d bytes are needed of a request of %d", have, len(wire))
			}
		}
	})
}

// Input byte by byte makes no garbage, whatever the parser remembers of it.
func TestReadingMakesNoGarbage(t *testing.T) {
	var wire []byte
	wire = resp.AppendArray(wire, 3)
	for _, a := range []string{"SET", "key", strings.Repeat("v", 4096)} {
		wire = resp.AppendBulkString(wire, a)
	}
	args := make([][]byte, 0, 8)
	var p resp.Parser
	allocs := testing.AllocsPerRun(100, func() {
		for have := range len(wire) + 1 {
			if _, _, err := p.Next(wire[:have], args[:0], &zdbLimits); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs != 0 {
		t.Errorf("reading a request byte by byte makes %v allocations", allocs)
	}
}

func BenchmarkRequest(b *testing.B) {
	for _, size := range []int{16, 1024, 4096} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			wire := resp.AppendArray(nil, 3)
			for _, a := range []string{"SET", "key:000000123456", strings.Repeat("v", size)} {
				wire = resp.AppendBulkString(wire, a)
			}
			var p resp.Parser
			args := make([][]byte, 0, 8)
			for b.Loop() {
				if _, n, err := p.Next(wire, args[:0], &zdbLimits); n == 0 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
	b.Run("1024 arguments byte by byte", func(b *testing.B) {
		wire := resp.AppendArray(nil, 1024)
		for range 1024 {
			wire = resp.AppendBulkString(wire, "argument")
		}
		var p resp.Parser
		args := make([][]byte, 0, 1024)
		for b.Loop() {
			for have := range len(wire) + 1 {
				if _, _, err := p.Next(wire[:have], args[:0], &zdbLimits); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
