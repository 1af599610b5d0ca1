package console

import (
	"bytes"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// begin leaves whatever another program has set, keeps the screen from going blank, clears it and hides the cursor.
	begin = "\x1b(B\x0f\x1b[0m\x1b[r\x1b[9;0]\x1b[14;0]\x1b[13]\x1b[2J\x1b[?25l"
	// end clears the screen and shows the cursor again.
	end = "\x1b[0m\x1b[2J\x1b[H\x1b[?25h"

	reverse, bold, normal = "\x1b[7m", "\x1b[1m", "\x1b[0m"
)

// screen is what a terminal shows, so that only lines are written that have changed.
type screen struct {
	shown         []string
	width, height int
}

// draw is what must be written for the terminal to show these lines.
func (s *screen) draw(lines []string, width, height int) []byte {
	var out bytes.Buffer
	if s.shown == nil || s.width != width || s.height != height {
		out.WriteString(begin)
		s.shown, s.width, s.height = make([]string, len(lines)), width, height
	}
	for n, l := range lines {
		if s.shown[n] == l {
			continue
		}
		// The line is cleared before it is written: a full one leaves the cursor on its last character.
		on, off := style(n, l)
		fmt.Fprintf(&out, "\x1b[%d;1H\x1b[K%s%s%s", n+1, on, l, off)
		s.shown[n] = l
	}
	return out.Bytes()
}

// forget has the next draw write everything.
func (s *screen) forget() { s.shown = nil }

// style is how a line is shown, and what ends that. Only the beginning of a line counts, which is never anybody else's text.
func style(n int, line string) (on, off string) {
	switch {
	case n == 0, strings.HasPrefix(line, "*****"):
		return reverse, normal
	case strings.HasPrefix(line, Failing.mark()):
		return bold, normal
	}
	return "", ""
}

// activeVT is the number of the VT that the machine's screen shows.
func activeVT(fd int) (uint16, error) {
	var state struct{ active, signal, state uint16 } // the kernel's struct vt_stat
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), vtGetState, uintptr(unsafe.Pointer(&state)))
	if errno != 0 {
		return 0, errno
	}
	return state.active, nil
}
