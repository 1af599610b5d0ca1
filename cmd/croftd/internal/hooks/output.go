package hooks

import (
	"fmt"
	"strings"
	"sync"

	"github.com/croft-edge/croft/pkg/clip"
)

// mostOutput is how much of a run's output is kept, in bytes.
const mostOutput = 64 << 10

// output keeps the end of what is written to it.
type output struct {
	mu   sync.Mutex
	kept []byte
	// left counts the bytes that aren't kept.
	left int64
}

// Write implements io.Writer. It never fails and never waits.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	if n > mostOutput {
		o.left += int64(n - mostOutput)
		p = p[n-mostOutput:]
	}
	o.kept = append(o.kept, p...)
	if over := len(o.kept) - mostOutput; over > mostOutput { // seldom, so that little is copied
		o.kept = append(o.kept[:0], o.kept[over:]...)
		o.left += int64(over)
	}
	return n, nil
}

// text is what is kept, as UTF-8.
func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept, left := o.kept, o.left
	if over := len(kept) - mostOutput; over > 0 {
		kept, left = kept[over:], left+int64(over)
	}
	text := strings.ToValidUTF8(string(kept), "?")
	if left == 0 {
		return text
	}
	return fmt.Sprintf("(%d bytes before this are left out)\n%s", left, text)
}

// line is a text in an environment variable: one line of a bounded size.
func line(text string) string { return clip.Line(text, mostValue) }

// mostValue bounds an environment variable of a hook, in bytes.
const mostValue = 4096
