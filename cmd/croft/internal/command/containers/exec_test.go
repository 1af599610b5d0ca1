package containers

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestLeaveKey: a console's input ends at the key Ctrl-], wherever a read has it.
func TestLeaveKey(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		"ls\n":                 "ls\n",
		"ls\n\x1dexit\n":       "ls\n",
		"\x1d":                 "",
		"a\x1db\x1dc":          "a",
		"\x1b]0;title\x07\x1d": "\x1b]0;title\x07",
	} {
		for _, from := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
			if got, err := io.ReadAll(leaving{from}); err != nil || string(got) != want {
				t.Errorf("%q gives %q, %v; want %q", text, got, err, want)
			}
		}
	}
}
