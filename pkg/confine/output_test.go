package confine_test

import (
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/confine"
)

func TestOutputIsBounded(t *testing.T) {
	var s confine.Output
	for range 3 {
		if n, err := s.Write(make([]byte, 3<<10)); n != 3<<10 || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := len(s.String()); n != 4<<10 {
		t.Errorf("%d bytes are kept", n)
	}
	for text, want := range map[string]string{
		"":                        "",
		"a\nb\x1b[31m\tc":         "a b [31m c",
		"\xff\xfe":                "?",
		strings.Repeat("ä", 300):  strings.Repeat("ä", 300),
		strings.Repeat("ä", 1000): strings.Repeat("ä", 300) + "…",
	} {
		if got := confine.Printable(text); got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
}
