package zdb

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// waited is how long a watch waits.
func waited(ctx context.Context, w *watch, most time.Duration) time.Duration {
	start := time.Now()
	w.wait(ctx, most)
	return time.Since(start)
}

func TestWatchSeesNewFiles(t *testing.T) {
	const long = 20 * time.Second
	dir := t.TempDir()
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	for name, come := range map[string]func(){
		"made":  func() { write("a.sock") },
		"moved": func() { write("other"); _ = os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, "a.sock")) },
		"among many": func() {
			for range 1000 {
				write("other")
				_ = os.Remove(filepath.Join(dir, "other"))
			}
			write("a.sock")
		},
	} {
		w := watchFolder(dir, "a.sock")
		come()
		if got := waited(t.Context(), w, long); got > long/2 {
			t.Errorf("%s: it was heard after %s", name, got)
		}
		w.close()
		_ = os.Remove(filepath.Join(dir, "a.sock"))
		w = watchFolder(dir, "a.sock")
		done := make(chan time.Duration)
		go func() { done <- waited(t.Context(), w, long) }()
		come()
		_ = os.Remove(filepath.Join(dir, "a.sock"))
		if got := <-done; got > long/2 {
			t.Errorf("%s while it waits: it was heard after %s", name, got)
		}
		w.close()
	}
}

func TestWatchTimeout(t *testing.T) {
	const most = 50 * time.Millisecond
	dir := t.TempDir()
	for _, dir := range []string{dir, filepath.Join(dir, "nowhere"), "/dev/null"} {
		w := watchFolder(dir, "a.sock")
		if got := waited(t.Context(), w, most); got < most || got > 100*most {
			t.Errorf("%s: it waited %s, want %s", dir, got, most)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(most, cancel)
		if got := waited(ctx, w, time.Hour); got > 100*most {
			t.Errorf("%s: it waited %s past its context", dir, got)
		}
		w.close()
		w.close()
	}
	// A folder that is removed says nothing more.
	w := watchFolder(dir, "a.sock")
	defer w.close()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if got := waited(t.Context(), w, most); got < most {
		t.Errorf("it waited %s, want %s", got, most)
	}
}

// TestWatchClosedAsItsWaitEnds has the race detector see a watch that is closed while
// the end of its wait's context is still being handled.
func TestWatchClosedAsItsWaitEnds(t *testing.T) {
	dir := t.TempDir()
	for range 500 {
		w := watchFolder(dir, "a.sock")
		ctx, cancel := context.WithCancel(t.Context())
		var ending sync.WaitGroup
		ending.Go(cancel)
		path := filepath.Join(dir, "a.sock")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w.wait(ctx, time.Minute)
		w.close()
		ending.Wait()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
