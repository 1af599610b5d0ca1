package handover_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/zdb/handover"
	"github.com/croft-edge/croft/modules/zdb/socket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// descriptors counts the open files of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(all)
}

// wantDescriptors fails unless there are soon no more than that many.
func wantDescriptors(t *testing.T, most int) {
	t.Helper()
	late := time.After(patience)
	for descriptors(t) > most {
		select {
		case <-late:
			t.Fatalf("%d descriptors are open, were %d", descriptors(t), most)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// zdb keeps the listeners it is given and answers "zdb" on them, as a loop would.
type zdb struct {
	path string
	stop func()

	mu     sync.Mutex
	has    []net.Listener
	refuse error
}

func newZDB(t *testing.T, path string) *zdb {
	t.Helper()
	z := &zdb{path: path}
	s, err := handover.Listen(handover.ServerConfig{Path: path, Take: z.take, Listeners: z.listeners, Log: zerolog.Nop()})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	var once sync.Once
	z.stop = func() {
		once.Do(func() {
			cancel()
			running.Wait()
			z.mu.Lock()
			defer z.mu.Unlock()
			for _, l := range z.has {
				l.Close()
			}
		})
	}
	t.Cleanup(z.stop)
	return z
}

func (z *zdb) take(f *os.File) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.refuse != nil {
		return z.refuse
	}
	l, err := net.FileListener(f)
	if err != nil {
		return err
	}
	f.Close()
	z.has = append(z.has, l)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "zdb")
			conn.Close()
		}
	}()
	return nil
}

func (z *zdb) listeners() ([]*os.File, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.refuse != nil {
		return nil, z.refuse
	}
	var out []*os.File
	for _, l := range z.has {
		f, err := l.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			return out, err
		}
		out = append(out, f)
	}
	return out, nil
}

func (z *zdb) refuses(err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.refuse = err
}

func path(t *testing.T) string { return filepath.Join(t.TempDir(), "handover.sock") }

// listen makes a listening socket and tells its address.
func listen(t *testing.T) (*os.File, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f, l.Addr().String()
}

func ask(t *testing.T, address string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	said, err := io.ReadAll(conn)
	must(t, err)
	return string(said)
}

func dial(t *testing.T, path string) *handover.Conn {
	t.Helper()
	c, err := handover.Dial(soon(t), path)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// raw is a connection that the test itself speaks on, past the greeting.
func raw(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	conn, err := socket.Dial(soon(t), path)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	if said := readLine(t, conn); said != `{"version":1,"listeners":0}` {
		t.Fatalf("greeted with %s", said)
	}
	return conn
}

// readLine reads a line, or all bytes until the other end closes.
func readLine(t *testing.T, conn net.Conn) string {
	t.Helper()
	var out []byte
	for b := make([]byte, 1); ; {
		n, err := conn.Read(b)
		if n == 0 || b[0] == '\n' {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("nothing came after %q", out)
			}
			return string(out)
		}
		out = append(out, b[0])
	}
}

// fd calls do with the descriptor of f. Fd would make it a blocking one, for all
// who have it open.
func fd[T any](t *testing.T, f *os.File, do func(fd int) (T, error)) T {
	t.Helper()
	raw, err := f.SyscallConn()
	must(t, err)
	var out T
	var doErr error
	must(t, raw.Control(func(fd uintptr) { out, doErr = do(int(fd)) }))
	must(t, doErr)
	return out
}

// cookie identifies a socket, through any descriptor of it.
func cookie(t *testing.T, f *os.File) uint64 {
	t.Helper()
	return fd(t, f, func(fd int) (uint64, error) { return unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE) })
}

// shutDown ends it for all who have it open.
func shutDown(t *testing.T, f *os.File) {
	t.Helper()
	fd(t, f, func(fd int) (struct{}, error) { return struct{}{}, unix.Shutdown(fd, unix.SHUT_RDWR) })
}
