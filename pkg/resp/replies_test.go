package resp_test

import (
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/resp"
)

func TestReplyLimits(t *testing.T) {
	limits := resp.ReplyLimits{Line: 16, String: 4, Elements: 2, Total: 64}
	for wire, want := range map[string]string{
		"+OK\r\n-\r\n:1\r\n$-1\r\n*-1\r\n":        "",
		"*2\r\n$4\r\na\r\nb\r\n:1\r\n*0\r\n+\r\n": "",
		"+" + strings.Repeat("x", 13) + "\r\n":    "",
		"+" + strings.Repeat("x", 14) + "\r\n":    "longer than 16 bytes",
		"$5\r\n":                                  "must be at most 4",
		"$-2\r\n":                                 "must be at most 4",
		"*3\r\n":                                  "must be at most 2",
		"*1\r\n*0\r\n":                            "an array in an array",
		"$4\r\nabcd\r\nPONG\r\n":                  `its first line is "PONG`,
		"+OK\n":                                   "its first line is",
		strings.Repeat("+\r\n", 22):               "more than 64 bytes",
	} {
		for step := 1; step <= len(wire); step++ {
			r := resp.NewReplies(limits)
			var err error
			for at := 0; at < len(wire) && err == nil; at += step {
				err = r.Check([]byte(wire[at:min(at+step, len(wire))]))
			}
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%q in pieces of %d: error is %v, want %q", wire, step, err, want)
			}
		}
	}
}
