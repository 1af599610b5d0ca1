package handover_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/zdb/handover"
	"github.com/croft-edge/croft/modules/zdb/socket"
)

// broken is a zdb that does with each connection what it is told to.
func broken(t *testing.T, do func(conn *net.UnixConn)) string {
	t.Helper()
	at := path(t)
	l, err := socket.Listen(at, 0o600)
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			do(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return at
}

// hang holds a connection until the other end closes it.
func hang(conn *net.UnixConn) {
	for b := make([]byte, 1); ; {
		if _, err := conn.Read(b); err != nil {
			return
		}
	}
}

// withFiles sends text with that many duplicates of f.
func withFiles(conn *net.UnixConn, text string, f *os.File, n int) {
	raw, err := f.SyscallConn()
	if err != nil {
		panic(err)
	}
	_ = raw.Control(func(fd uintptr) {
		_, _, _ = conn.WriteMsgUnix([]byte(text), unix.UnixRights(slices.Repeat([]int{int(fd)}, n)...), nil)
	})
}

func TestBrokenZDBsCostADeadline(t *testing.T) {
	f, _ := listen(t)
	say := func(text string) func(*net.UnixConn) {
		return func(conn *net.UnixConn) { _, _ = conn.Write([]byte(text)); hang(conn) }
	}
	for name, do := range map[string]func(conn *net.UnixConn){
		"hangs":                   hang,
		"closes":                  func(*net.UnixConn) {},
		"half a line":             say(`{"version":1`),
		"closes within a line":    func(conn *net.UnixConn) { _, _ = conn.Write([]byte(`{"version":1`)) },
		"garbage":                 say("\x00\xff\r\n"),
		"no object":               say("1\n"),
		"null":                    say("null\n"),
		"nothing":                 say("\n"),
		"another version":         say("{\"version\":2,\"listeners\":0}\n"),
		"listeners that it lacks": say("{\"version\":1,\"listeners\":1}\n"),
		"a number below 0":        say("{\"version\":1,\"listeners\":-1}\n"),
		"two lines":               say("{\"version\":1,\"listeners\":0}\n{\"ok\":true}\n"),
		"a long line":             say(strings.Repeat("x", 1<<20)),
		"listeners it doesn't count": func(conn *net.UnixConn) {
			withFiles(conn, "{\"version\":1,\"listeners\":1}\n", f, 2)
			hang(conn)
		},
		"too many listeners": func(conn *net.UnixConn) {
			withFiles(conn, "{\"version\":1,\"listeners\":200}\n", f, 200)
			hang(conn)
		},
		"listeners in parts": func(conn *net.UnixConn) {
			for range 100 {
				withFiles(conn, " ", f, 50)
			}
			hang(conn)
		},
		"listeners with half a line": func(conn *net.UnixConn) { withFiles(conn, "{\"version\":1,", f, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			at := broken(t, do)
			before := descriptors(t)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			start := time.Now()
			c, err := handover.Dial(ctx, at)
			if err == nil {
				c.Close()
				t.Fatal("there is no error")
			}
			if !strings.HasPrefix(err.Error(), "cannot ask the zdb at "+at) || time.Since(start) > patience/2 {
				t.Errorf("it is %v after %s", err, time.Since(start))
			}
			wantDescriptors(t, before)
		})
	}
}

// TestGreetingsInParts and with descriptors that aren't listeners are fine.
func TestGreetingsInParts(t *testing.T) {
	f, _ := listen(t)
	file, err := os.Open("/proc/self/exe")
	must(t, err)
	defer file.Close()
	at := broken(t, func(conn *net.UnixConn) {
		for _, b := range []byte(" {\"new\":[1],\"version\":1,") {
			_, _ = conn.Write([]byte{b})
		}
		withFiles(conn, "\"listeners\"", f, 1)
		withFiles(conn, ":2}", file, 1)
		_, _ = conn.Write([]byte("\n"))
		hang(conn)
	})
	before := descriptors(t)
	c := dial(t, at)
	back := c.Listeners()
	if len(back) != 1 || cookie(t, back[0]) != cookie(t, f) {
		t.Fatalf("listeners are %v", back)
	}
	back[0].Close()
	c.Close()
	wantDescriptors(t, before)
}

func TestBrokenAnswers(t *testing.T) {
	f, _ := listen(t)
	for _, answer := range []string{"", "{}\n", "{\"ok\":false}\n", "[]\n", "{\"ok\":true}\n\n", "{\"ok\":", strings.Repeat(" ", 5000)} {
		at := broken(t, func(conn *net.UnixConn) {
			_, _ = conn.Write([]byte("{\"version\":1,\"listeners\":0}\n"))
			_, _ = conn.Read(make([]byte, 100))
			_, _ = conn.Write([]byte(answer))
			hang(conn)
		})
		c := dial(t, at)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := c.Give(ctx, f); err == nil || !strings.HasPrefix(err.Error(), "cannot hand a listener to the zdb at "+at) {
			t.Errorf("%q: %v", answer, err)
		}
		cancel()
		c.Close()
	}
}

func TestUnaskedData(t *testing.T) {
	given := make(chan struct{})
	c := dial(t, broken(t, func(conn *net.UnixConn) {
		_, _ = conn.Write([]byte("{\"version\":1,\"listeners\":0}\n"))
		_, _ = conn.Read(make([]byte, 100))
		_, _ = conn.Write([]byte("{\"ok\":true}\n"))
		<-given
		_, _ = conn.Write([]byte("hello\n"))
		hang(conn)
	}))
	f, _ := listen(t)
	must(t, c.Give(soon(t), f))
	close(given)
	if err := c.Wait(soon(t)); err == nil || !strings.Contains(err.Error(), "speaks without being asked") {
		t.Errorf("it is %v", err)
	}
}

func TestBrokenNodesAreClosed(t *testing.T) {
	z := newZDB(t, path(t))
	f, _ := listen(t)
	before := descriptors(t)
	for name, do := range map[string]func(conn *net.UnixConn){
		"a long line":         func(conn *net.UnixConn) { _, _ = conn.Write([]byte(strings.Repeat("x", 5000))) },
		"two requests":        func(conn *net.UnixConn) { withFiles(conn, "{\"take\":1}\n{\"take\":1}\n", f, 1) },
		"two descriptors":     func(conn *net.UnixConn) { withFiles(conn, "{\"take\":1}\n", f, 2) },
		"many descriptors":    func(conn *net.UnixConn) { withFiles(conn, "{\"take\":1}\n", f, 200) },
		"half a line for 5 s": func(conn *net.UnixConn) { withFiles(conn, "{\"take\"", f, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			conn := raw(t, z.path)
			do(conn)
			if said := readLine(t, conn); said != "" {
				t.Errorf("it says %s", said)
			}
			conn.Close()
			wantDescriptors(t, before)
		})
	}
	if got := dial(t, z.path).Listeners(); len(got) != 0 {
		t.Errorf("it has %v", got)
	}
}

func TestInvalidRequests(t *testing.T) {
	z := newZDB(t, path(t))
	f, _ := listen(t)
	before := descriptors(t)
	conn := raw(t, z.path)
	for _, text := range []string{"{}", "{\"take\":2}", "{\"take\":0}", "{\"take\":-1}", "{\"take\":\"1\"}", "[]", "null", "", "{\"take\":1", "\xff"} {
		withFiles(conn, text+"\n", f, 1)
		if said := readLine(t, conn); !strings.HasPrefix(said, `{"error":"cannot `) {
			t.Errorf("%s: it says %s", text, said)
		}
	}
	if _, err := conn.Write([]byte("{\"take\":1}\n")); err != nil {
		t.Error(err)
	}
	if said := readLine(t, conn); said != `{"error":"cannot take listeners: take is 1 with 0 descriptors, must be 1 with 1"}` {
		t.Errorf("it says %s", said)
	}
	withFiles(conn, "{\"take\":1}\n", f, 1)
	if said := readLine(t, conn); said != `{"ok":true}` {
		t.Errorf("it says %s", said)
	}
	conn.Close()
	wantDescriptors(t, before+1)
}

// TestSilentNode: its connection tells it when the zdb ends.
func TestSilentNode(t *testing.T) {
	z := newZDB(t, path(t))
	conn := raw(t, z.path)
	must(t, conn.SetReadDeadline(time.Now().Add(6*time.Second)))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	z.stop()
	if said := readLine(t, conn); said != "" {
		t.Errorf("it says %s", said)
	}
}
