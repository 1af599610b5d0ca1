package privatesocket_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/privatesocket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logged is what a listener logs, read while it runs.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// serve answers each connection with one byte and keeps it open until its peer closes it.
func serve(t *testing.T, config privatesocket.Config) *privatesocket.Listener {
	t.Helper()
	l, err := privatesocket.Listen(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				_, _ = c.Write([]byte("+"))
				_, _ = io.Copy(io.Discard, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l
}

// greeted is whether the server served a new connection, which stays open until the test ends.
func greeted(t *testing.T, path string) bool {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return read(t, c)
}

func read(t *testing.T, c net.Conn) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Error(err)
	}
	n, err := c.Read(make([]byte, 1))
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("cannot read: %v", err)
	}
	return n == 1
}

func TestItIsPrivateFromTheFirstMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "x.sock")
	l := serve(t, privatesocket.Config{Path: path})
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("beside the socket: %v, %v", left, err)
	}
	if !greeted(t, path) {
		t.Error("the own user isn't served")
	}
	_ = l.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestAServedSocketIsAnErrorAndAStaleOneIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	serve(t, privatesocket.Config{Path: path})
	if _, err := privatesocket.Listen(t.Context(), privatesocket.Config{Path: path}); !errors.Is(err, privatesocket.ErrServed) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v", err)
	}
	if !greeted(t, path) {
		t.Error("the refused one has broken the first")
	}
	stale := filepath.Join(t.TempDir(), "x.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	serve(t, privatesocket.Config{Path: stale})
	if !greeted(t, stale) {
		t.Error("the stale socket isn't replaced")
	}
}

func TestOtherFilesStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := privatesocket.Listen(t.Context(), privatesocket.Config{Path: path}); err == nil || !strings.Contains(err.Error(), "isn't a socket") {
		t.Errorf("got %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "mine" {
		t.Errorf("the file is %q, %v", got, err)
	}
	below := filepath.Join(path, "x.sock")
	if _, err := privatesocket.Listen(t.Context(), privatesocket.Config{Path: below}); err == nil || !strings.HasPrefix(err.Error(), "cannot open the socket "+below) {
		t.Errorf("got %v", err)
	}
}

// TestASuccessorsSocketStays: the old process ends after the new one has opened its socket.
func TestASuccessorsSocketStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	old, err := privatesocket.Listen(t.Context(), privatesocket.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	serve(t, privatesocket.Config{Path: path})
	_ = old.Close()
	if !greeted(t, path) {
		t.Error("the successor isn't served")
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	var log logged
	serve(t, privatesocket.Config{Path: path, Connections: 2, Log: zerolog.New(&log)})
	first, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if !read(t, first) || !greeted(t, path) {
		t.Fatal("two connections aren't served")
	}
	for range 2 { // and it is logged once
		if greeted(t, path) {
			t.Error("a third connection is served")
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "more than 2 connections") {
		t.Errorf("logged %s", log.String())
	}
	first.Close()
	for deadline := time.Now().Add(30 * time.Second); !greeted(t, path); {
		if time.Now().After(deadline) {
			t.Fatal("a closed connection keeps its place")
		}
	}
}

// TestOtherUsersAreRefused: the mode is opened for the test, as an operator's chmod would.
func TestOtherUsersAreRefused(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "socket")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "x.sock")
	var log logged
	serve(t, privatesocket.Config{Path: path, Log: zerolog.New(&log)})
	for name, mode := range map[string]os.FileMode{dir: 0o755, path: 0o666} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	served := make(chan bool)
	go func() {
		defer close(served)
		// The thread ends with the goroutine, because it stays locked to it: no other part of the test gets its user.
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			t.Errorf("setresuid: %v", errno)
			return
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Errorf("cannot connect: %v", err)
			return
		}
		defer c.Close()
		served <- read(t, c)
	}()
	if <-served {
		t.Error("another user is served")
	}
	if !strings.Contains(log.String(), "cannot serve user ID 65534: only root and user ID 0 may connect") {
		t.Errorf("logged %s", log.String())
	}
	if !greeted(t, path) {
		t.Error("root isn't served after it")
	}
}

func TestDialSaysWhyThereIsNoConnection(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	for _, path := range []string{filepath.Join(dir, "none.sock"), stale} {
		if _, err := privatesocket.Dial(t.Context(), path); !errors.Is(err, privatesocket.ErrNotRunning) || !strings.HasPrefix(err.Error(), "cannot open "+path+" (") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := privatesocket.Dial(t.Context(), dir+strings.Repeat("/x", 100)); err == nil || errors.Is(err, privatesocket.ErrNotRunning) {
		t.Errorf("a path that is too long: %v", err)
	}
	live := filepath.Join(dir, "live.sock")
	serve(t, privatesocket.Config{Path: live})
	c, err := privatesocket.Dial(t.Context(), live)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !read(t, c) {
		t.Error("it isn't served")
	}
}
