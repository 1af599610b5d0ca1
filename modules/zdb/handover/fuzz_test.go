package handover

import (
	"bytes"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func pair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	conns := [2]*net.UnixConn{}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = c.(*net.UnixConn)
	}
	return conns[0], conns[1]
}

func open(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// FuzzReceive sends anything in parts, each with some descriptors: an
// accepted message is one line within its bounds, and no descriptor is left open.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("{\"take\":1}\n"), byte(4), byte(1), byte(1))
	f.Add([]byte("{\"version\":1,\"listeners\":2}\n"), byte(200), byte(2), byte(64))
	f.Add([]byte("{\"ok\":true}\n{}"), byte(1), byte(0), byte(0))
	f.Add(bytes.Repeat([]byte(" "), maxLine), byte(255), byte(9), byte(3))
	f.Add([]byte{}, byte(0), byte(3), byte(0))
	f.Fuzz(func(t *testing.T, sent []byte, step, along, allowed byte) {
		if len(sent) > 2*maxLine {
			sent = sent[:2*maxLine]
		}
		before := open(t)
		a, b := pair(t)
		passed := make([]int, min(int(along), 100))
		file, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		for i := range passed {
			passed[i] = int(file.Fd())
		}
		go func() {
			defer a.Close()
			defer file.Close()
			oob := unix.UnixRights(passed...)
			if len(passed) == 0 {
				oob = nil
			}
			for rest := sent; len(rest) > 0; {
				n := min(max(int(step), 1), len(rest))
				if _, _, err := a.WriteMsgUnix(rest[:n], oob, nil); err != nil {
					return
				}
				rest, oob = rest[n:], nil
			}
		}()
		in, err := receive(b, time.Now().Add(5*time.Second), int(allowed)%65)
		if err == nil {
			if len(in.text) > maxLine || bytes.IndexByte(in.text, '\n') != len(in.text)-1 || !bytes.HasPrefix(sent, in.text) {
				t.Errorf("took %q of %q", in.text, sent)
			}
			if len(in.files) > int(allowed)%65 || len(in.files) != len(passed) {
				t.Errorf("took %d descriptors of %d, %d are allowed", len(in.files), len(passed), int(allowed)%65)
			}
			_, _ = decode[greeting](in.text)
			_, _ = decode[request](in.text)
			_, _ = decode[reply](in.text)
			in.close()
		} else if len(in.files) != 0 || in.text != nil {
			t.Errorf("took %v with %v", in, err)
		}
		b.Close()
		for late := time.Now().Add(5 * time.Second); open(t) > before; {
			if time.Now().After(late) {
				t.Fatalf("%d descriptors, were %d", open(t), before)
			}
		}
	})
}
