package resp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/croft-edge/croft/pkg/resp"
)

func strict() resp.Limits {
	return resp.Limits{Argument: 1 << 20, Arguments: 4, Request: 2 << 20, Large: 600, Strict: true}
}

func TestReader(t *testing.T) {
	large := fmt.Sprintf("$%d\r\n%s\r\n", 5000, strings.Repeat("x", 5000))
	sent := "*1\r\n$4\r\nPING\r\n*0\r\n*2\r\n$1\r\na\r\n" + large + "*1\r\n$0\r\n\r\n"
	want := [][]string{{"PING"}, {}, {"a", strings.Repeat("x", 5000)}, {""}}
	for name, from := range map[string]io.Reader{"whole": strings.NewReader(sent), "bytes": iotest.OneByteReader(strings.NewReader(sent))} {
		r := resp.NewReader(from, strict())
		var got [][][]byte
		for {
			args, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, args)
		}
		// Earlier requests stay unchanged.
		if len(got) != len(want) {
			t.Fatalf("%s: %d requests, want %d", name, len(got), len(want))
		}
		for i, args := range got {
			if string(bytes.Join(args, []byte{0})) != strings.Join(want[i], "\x00") || len(args) != len(want[i]) {
				t.Errorf("%s: request %d is %.40q", name, i, args)
			}
		}
	}
}

func TestStrictLimits(t *testing.T) {
	large := "$601\r\n" + strings.Repeat("x", 601) + "\r\n"
	for sent, want := range map[string]error{
		"*1\r\n$4\r\nPINGxx": resp.ErrNotEnded, "*1\n": resp.ErrNotArray, "*+1\r\n": resp.ErrNotArray, "* 1\r\n": resp.ErrNotArray, "*-1\r\n": resp.ErrNotArray,
		"*1x\r\n": resp.ErrNotArray, "*\r\n": resp.ErrNotArray, "*1234567890\r\n": resp.ErrNotArray, "*1\r\n$-1\r\n": resp.ErrNotBulk, "*1\r\n$ 4\r\n": resp.ErrNotBulk,
		"*5\r\n": resp.ErrManyArgs, "*1\r\n$1048577\r\n": resp.ErrTooBig, "*2\r\n" + large + "$601\r\n": resp.ErrManyLarge,
		"*3\r\n" + large + "$600\r\n" + strings.Repeat("x", 600) + "\r\n$1\r\n": io.EOF,
	} {
		_, err := resp.NewReader(strings.NewReader(sent), strict()).Next()
		if !errors.Is(err, want) {
			t.Errorf("%.30q: %v, want %v", sent, err, want)
		}
	}
}

// An announced argument that doesn't come takes no memory.
func TestReaderMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := resp.NewReader(strings.NewReader("*1\r\n$1048576\r\nx"), strict()).Next()
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, io.EOF) || taken > 256<<10 {
		t.Errorf("%d bytes are taken, %v", taken, err)
	}
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{"*1\r\n$4\r\nPING\r\n", "*3\r\n$5\r\nRPUSH\r\n$1\r\nk\r\n$1\r\nv\r\n", "*2\r\n$-1\r\n", "PING\r\n", "*0\r\n*0\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		whole, pieces := resp.NewReader(bytes.NewReader(sent), strict()), resp.NewReader(iotest.OneByteReader(bytes.NewReader(sent)), strict())
		for {
			args, err := whole.Next()
			others, otherErr := pieces.Next()
			if (err == nil) != (otherErr == nil) || !bytes.Equal(bytes.Join(args, []byte{0}), bytes.Join(others, []byte{0})) || len(args) != len(others) {
				t.Fatalf("%q: %q and %v, in pieces %q and %v", sent, args, err, others, otherErr)
			}
			if err != nil {
				return
			}
			if len(args) > strict().Arguments {
				t.Errorf("%d arguments", len(args))
			}
		}
	})
}
