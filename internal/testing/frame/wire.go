package frame

import (
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Wire is a raw socket on an interface.
type Wire struct {
	t  testing.TB
	fd int
}

// NewWire opens one on the interface of that name. in runs a function in its network namespace, on any thread.
// It is closed when t ends.
func NewWire(t testing.TB, in func(f func()), iface string) *Wire {
	t.Helper()
	all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
	w := &Wire{t: t}
	var link *net.Interface
	var err, set error
	in(func() {
		if link, err = net.InterfaceByName(iface); err != nil {
			return
		}
		if w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all)); err == nil {
			// A test may send many frames before it looks.
			set = errors.Join(unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20),
				unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(w.fd) })
	if set != nil {
		t.Fatal(set)
	}
	return w
}

// Send sends a frame, filled up to the shortest on a wire.
func (w *Wire) Send(frame []byte) {
	w.t.Helper()
	// No frame on a wire is shorter.
	frame = append(slices.Clone(frame), make([]byte, max(0, 60-len(frame)))...)
	if _, err := unix.Write(w.fd, frame); err != nil {
		w.t.Fatalf("cannot send a frame: %v", err)
	}
}

// Sees waits until one of the texts is in a frame, and says which, or "".
func (w *Wire) Sees(wait time.Duration, texts ...string) string {
	w.t.Helper()
	found := ""
	w.Receive(wait, func(frame []byte) bool {
		for _, text := range texts {
			if slices.Contains(Texts(frame), text) {
				found = text
			}
		}
		return found != ""
	})
	return found
}

// Receive takes frames until enough says that it is.
func (w *Wire) Receive(wait time.Duration, enough func(frame []byte) bool) bool {
	w.t.Helper()
	buf := make([]byte, 65536)
	for end := time.Now().Add(wait); ; {
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		timeout := unix.NsecToTimeval(left.Nanoseconds() + 1000)
		if err := unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
			w.t.Fatal(err)
		}
		if size, _, err := unix.Recvfrom(w.fd, buf, 0); err == nil && enough(buf[:size]) {
			return true
		}
	}
}

// Texts are the runs of printable characters.
func Texts(data []byte) []string {
	var out []string
	start := 0
	for i := 0; i <= len(data); i++ {
		if i < len(data) && data[i] > ' ' && data[i] < 0x7f {
			continue
		}
		if i > start {
			out = append(out, string(data[start:i]))
		}
		start = i + 1
	}
	return out
}
