package notice_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/modules/storage/notice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds each wait of these tests.
const patience = time.Minute

// watched are Folders that run, with what they told.
type watched struct {
	*notice.Folders
	told chan string
	lost chan struct{}
}

func watch(t *testing.T) *watched {
	t.Helper()
	w := &watched{told: make(chan string, 100), lost: make(chan struct{}, 100)}
	var err error
	w.Folders, err = notice.Open(func(name string) { w.told <- name }, func() { w.lost <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// next is the next name that is told.
func (w *watched) next(t *testing.T) string {
	t.Helper()
	select {
	case name := <-w.told:
		return name
	case <-time.After(patience):
		t.Fatal("nothing is told")
		return ""
	}
}

func (w *watched) wantLost(t *testing.T) {
	t.Helper()
	select {
	case <-w.lost:
	case <-time.After(patience):
		t.Fatal("it isn't lost")
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestWhatAppearsAndDisappearsIsTold(t *testing.T) {
	w, dir := watch(t), t.TempDir()
	if err := w.Watch(dir); err != nil {
		t.Fatal(err)
	}
	w.wantLost(t)
	if err := w.Watch(dir); err != nil || len(w.lost) != 0 {
		t.Errorf("watched again, it is lost (%v)", err)
	}
	mkdir(t, filepath.Join(dir, "1-1"))
	if got := w.next(t); got != "1-1" {
		t.Errorf("%q is told", got)
	}
	if err := os.Rename(filepath.Join(dir, "1-1"), filepath.Join(dir, "2-1")); err != nil {
		t.Fatal(err)
	}
	if a, b := w.next(t), w.next(t); a != "1-1" || b != "2-1" {
		t.Errorf("a renamed one is told as %q and %q", a, b)
	}
}

// A folder that isn't there, or isn't one, is an error, doesn't count as watched, and keeps no other from being watched.
func TestFoldersThatCannotBeWatched(t *testing.T) {
	w, dir := watch(t), t.TempDir()
	gone, file := filepath.Join(dir, "gone"), filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, each := range []struct{ path, want string }{{gone, "no such file"}, {file, "not a directory"}} {
		err := w.Watch(each.path)
		if err == nil || !strings.Contains(err.Error(), "cannot watch folder "+each.path+": "+each.want) {
			t.Errorf("%s: %v, want %q", each.path, err, each.want)
		}
	}
	if len(w.lost) != 0 {
		t.Error("what isn't watched counts as watched")
	}
	if err := w.Watch(gone, dir); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("beside another: %v", err)
	}
	w.wantLost(t)
	mkdir(t, gone)
	if got := w.next(t); got != "gone" {
		t.Errorf("%q is told", got)
	}
	if err := w.Watch(gone, dir); err != nil {
		t.Error(err)
	}
	w.wantLost(t)
	mkdir(t, filepath.Join(gone, "1-1"))
	if got := w.next(t); got != "1-1" {
		t.Errorf("once it is there, %q is told", got)
	}
}

// A watched folder that is replaced isn't watched any more, until Watch is called.
func TestAFolderThatIsReplaced(t *testing.T) {
	w, dir := watch(t), filepath.Join(t.TempDir(), "dir")
	mkdir(t, dir)
	if err := w.Watch(dir); err != nil {
		t.Fatal(err)
	}
	w.wantLost(t)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	w.wantLost(t)
	if err := w.Watch(dir); err == nil {
		t.Error("a folder that is gone is watched")
	}
	mkdir(t, dir)
	if err := w.Watch(dir); err != nil {
		t.Fatal(err)
	}
	w.wantLost(t)
	mkdir(t, filepath.Join(dir, "1-1"))
	if got := w.next(t); got != "1-1" {
		t.Errorf("%q is told", got)
	}
}
