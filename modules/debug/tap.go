package debug

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/croft-edge/croft/modules/debug/scrub"
)

// Tap is the writer of a process's logger: it writes lines to the next writer, and
// passes a copy of each to the listener. Without a listener it costs an atomic load.
type Tap struct {
	next   io.Writer
	listen atomic.Pointer[func(l *line)]
}

// NewTap makes a Tap in front of next.
func NewTap(next io.Writer) *Tap { return &Tap{next: next} }

// Past returns the next writer: lines written there reach no stream.
func (t *Tap) Past() io.Writer { return t.next }

// Write implements io.Writer. It gets one line at a time.
func (t *Tap) Write(p []byte) (int, error) {
	n, err := t.next.Write(p)
	if listen := t.listen.Load(); listen != nil {
		(*listen)(newLine(string(p[:min(len(p), maxRaw)])))
	}
	return n, err
}

// to sets the listener; nil removes it.
func (t *Tap) to(listen func(l *line)) {
	if listen == nil {
		t.listen.Store(nil)
		return
	}
	t.listen.Store(&listen)
}

// newLine makes a line from text, without line breaks at its end.
func newLine(text string) *line {
	for len(text) > 0 && (text[len(text)-1] == '\n' || text[len(text)-1] == '\r') {
		text = text[:len(text)-1]
	}
	if len(text) > maxRaw {
		text = text[:maxRaw]
	}
	return &line{raw: text, clean: sync.OnceValue(func() string { return shortened(scrub.Line(text)) })}
}

// maxLine is the longest line that is published.
const maxLine = 16 << 10

// cutMark ends a line that was cut.
const cutMark = "… (croft: the rest is cut off)"

// shortened cuts a scrubbed line to maxLine. Cutting before scrubbing could split
// a secret, which would then go unrecognized.
func shortened(text string) string {
	if len(text) <= maxLine {
		return text
	}
	return text[:maxLine-len(cutMark)] + cutMark
}
