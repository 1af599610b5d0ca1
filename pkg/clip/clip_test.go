package clip_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/clip"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""},
		{"", 5, ""},
		{"four", 4, "four"},
		{"fives", 4, "five…"},
		{"aé", 2, "a…"},
		{"aé", 3, "aé"},
		{"aéb", 3, "aé…"},
		{"日本", 1, "…"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80\x80\x80\x80\x80…"},
		{"x", 0, "…"},
	} {
		if got := clip.Text(c.text, c.most); got != c.want {
			t.Errorf("Text(%q, %d) is %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestLine(t *testing.T) {
	if got := clip.Line("a\nb\tc\x1b[31m\x7f\xff\u0085", 100); got != "a b c [31m ? " {
		t.Errorf("got %q", got)
	}
}

// TestClippedTexts checks any text: the length, the start, whole characters.
func TestClippedTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		most := rapid.IntRange(3, 40).Draw(t, "most")
		got, within, line := clip.Text(text, most), clip.Within(text, most), clip.Line(text, most)
		if len(got) > most+len("…") || len(within) > most || len(line) > most+len("…") {
			t.Fatalf("%q, %q, %q of %q are longer than %d", got, within, line, text, most)
		}
		if len(text) <= most && (got != text || within != text) {
			t.Fatalf("%q and %q were cut of %q", got, within, text)
		}
		if !strings.HasPrefix(text, strings.TrimSuffix(got, "…")) && got != text {
			t.Fatalf("%q isn't the start of %q", got, text)
		}
		if utf8.ValidString(text) && (!utf8.ValidString(got) || !utf8.ValidString(within)) {
			t.Fatalf("%q or %q has a part of a character of %q", got, within, text)
		}
		if !utf8.ValidString(line) || strings.ContainsFunc(line, unicode.IsControl) {
			t.Fatalf("%q is no line", line)
		}
	})
}
