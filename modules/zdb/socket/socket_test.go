package socket_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/croft-edge/croft/modules/zdb/socket"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// longFolder is a folder whose path is longer than a socket's may be.
func longFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for range 3 {
		dir = filepath.Join(dir, strings.Repeat("long", 20))
	}
	must(t, os.MkdirAll(dir, 0o700))
	return dir
}

// answer says its name to all who connect, until the listener is closed.
func answer(l *socket.Listener, name string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, name)
		conn.Close()
	}
}

func ask(t *testing.T, path string) string {
	t.Helper()
	conn, err := socket.Dial(t.Context(), path)
	must(t, err)
	defer conn.Close()
	said, err := io.ReadAll(conn)
	must(t, err)
	return string(said)
}

func TestShortAndLongPaths(t *testing.T) {
	short, err := os.MkdirTemp("/tmp", "s")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(short) })
	for _, dir := range []string{short, longFolder(t)} {
		path := filepath.Join(dir, "a.sock")
		l, err := socket.Listen(path, 0o600)
		must(t, err)
		go answer(l, "a")
		if said := ask(t, path); said != "a" {
			t.Errorf("%q answers", said)
		}
		info, err := os.Lstat(path)
		must(t, err)
		if info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("its mode is %s", info.Mode())
		}
		must(t, l.Close())
		left, err := os.ReadDir(dir)
		must(t, err)
		if len(left) != 0 {
			t.Errorf("%v are left", left)
		}
	}
}

// TestReplacedSocket without a moment in which nobody answers, and isn't
// removed by the first.
func TestReplacedSocket(t *testing.T) {
	path := filepath.Join(longFolder(t), "a.sock")
	first, err := socket.Listen(path, 0o600)
	must(t, err)
	go answer(first, "first")
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil {
			conn, err := socket.Dial(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
		}
	})
	last := first
	for range 200 {
		next, err := socket.Listen(path, 0o600)
		must(t, err)
		go answer(next, "another")
		if last != first {
			t.Cleanup(func() { last.Close() })
		}
		last = next
	}
	cancel()
	asking.Wait()
	must(t, first.Close())
	if said := ask(t, path); said != "another" {
		t.Errorf("%q answers", said)
	}
	must(t, last.Close())
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestNonSocketsAreRefused(t *testing.T) {
	dir := longFolder(t)
	l, err := socket.Listen(filepath.Join(dir, "real"), 0o600)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	must(t, os.Symlink("real", filepath.Join(dir, "link")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	for _, name := range []string{"file", "link", "pipe", "folder", "nothing", "file/below"} {
		path := filepath.Join(dir, name)
		_, err := socket.Dial(t.Context(), path)
		if err == nil || !strings.HasPrefix(err.Error(), "cannot connect to "+path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = socket.Dial(t.Context(), filepath.Join(dir, "nothing"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	// A dead one's file: nobody listens.
	must(t, l.UnixListener.Close())
	if _, err = socket.Dial(t.Context(), filepath.Join(dir, "real")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a dead one: %v", err)
	}
}

func TestUnusablePaths(t *testing.T) {
	dir := longFolder(t)
	must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	for _, name := range []string{"nowhere/a.sock", "folder"} {
		path := filepath.Join(dir, name)
		if _, err := socket.Listen(path, 0o600); err == nil || !strings.HasPrefix(err.Error(), "cannot listen on "+path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 1 {
		t.Errorf("%v are left", left)
	}
}

func TestDialContext(t *testing.T) {
	path := filepath.Join(longFolder(t), "a.sock")
	l, err := socket.Listen(path, 0o600)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := socket.Dial(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("it is %v", err)
	}
}
