package resp_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/resp"
)

// FuzzParser gives the parser a stream in pieces of random sizes, and compares each
// request, or the error, with the reference.
func FuzzParser(f *testing.F) {
	for _, seed := range []string{
		"*1\r\n$4\r\nPING\r\n", "*1\n$4\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nx\r\n", "*1\r\n$4\r\nPINGXX", "PING\r\n", "*0\r\n", "*17\r\n", "*-1\r\n",
		"*1\r\n:1\r\n", "*1\r\n$-1\r\n", "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$5\r\nvalue\r\n", "*1\r\n$65\r\n", "* +1x\r\n$\t04;\r\nPING\r\n",
		"*" + strings.Repeat("0", 40) + "1\r\n", "*1\r\n$99999999999999999999\r\n", "*16\r\n" + strings.Repeat("$16\r\n0123456789abcdef\r\n", 16),
		"*1\r", "*1\r\n$", "*2\r\n$1\r\na\r\n$\r\n\r\n", "*1\r\n$\x000\n\r\n", "*1\r\n$1\n\n\n\n",
	} {
		f.Add([]byte(seed), uint64(len(seed)))
	}
	limits := resp.Limits{Argument: 64, Arguments: 16, Request: 300}
	f.Fuzz(func(t *testing.T, wire []byte, random uint64) {
		r := rand.New(rand.NewPCG(random, 1))
		for {
			want := reference(wire, limits)
			got, left, err := feed(wire, limits, func() int { return 1 + r.IntN(9) })
			if want.err != nil || err != nil {
				if !errors.Is(err, want.err) {
					t.Fatalf("%q: %v, the reference says %v", wire, err, want.err)
				}
				return
			}
			if strings.Join(got, "\x00") != strings.Join(want.args, "\x00") || len(got) != len(want.args) || len(wire)-len(left) != want.size {
				t.Fatalf("%q: %q and %q left, the reference says %q and %d bytes", wire, got, left, want.args, want.size)
			}
			if want.size == 0 {
				return
			}
			wire = wire[want.size:]
		}
	})
}
