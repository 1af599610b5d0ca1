package confine_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/confine"
)

// TestNoWrites: afterwards nothing is written, made or removed by its path; what is open, and what is excepted, can be written.
func TestNoWrites(t *testing.T) {
	dir := t.TempDir()
	there, folder, excepted := filepath.Join(dir, "there"), filepath.Join(dir, "folder"), filepath.Join(dir, "excepted")
	for _, name := range []string{there, excepted} {
		if err := os.WriteFile(name, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	open, err := os.OpenFile(there, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			t.Error(err)
			return
		}
		err := confine.NoWrites(excepted, filepath.Join(dir, "missing"))
		empties := errors.Is(err, confine.ErrTruncates) // Linux before 6.2
		if err != nil && !empties {
			t.Error(err)
			return
		}
		truncating := error(unix.EACCES)
		if !empties {
			truncating = os.Truncate(there, 0)
		}
		write := func(name string, flags int) error {
			f, err := os.OpenFile(name, os.O_WRONLY|flags, 0o600)
			if err == nil {
				_, err = f.WriteString("more")
				_ = f.Close()
			}
			return err
		}
		shared := filepath.Join("/dev/shm", filepath.Base(dir)+"-croft")
		for what, err := range map[string]error{
			"writing a file":           write(there, 0),
			"making a file":            write(filepath.Join(dir, "new"), os.O_CREATE),
			"making one in memory":     write(shared, os.O_CREATE),
			"truncating a file":        truncating,
			"removing a file":          os.Remove(there),
			"removing a folder":        os.Remove(folder),
			"making a folder":          os.Mkdir(filepath.Join(dir, "other"), 0o700),
			"moving a file":            os.Rename(there, filepath.Join(folder, "there")),
			"a second name":            os.Link(there, filepath.Join(folder, "there")),
			"making a symbolic link":   os.Symlink(there, filepath.Join(dir, "link")),
			"making a socket":          unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o600, 0),
			"making a file in /proc":   write("/proc/self/comm", 0),
			"writing a missing device": write(filepath.Join(dir, "missing"), os.O_CREATE),
		} {
			if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EXDEV) {
				t.Errorf("%s: %v, want permission denied", what, err)
			}
		}
		_ = os.Remove(shared)
		if _, err := open.WriteString("."); err != nil {
			t.Errorf("writing an open file: %v", err)
		}
		if err := write(excepted, 0); err != nil {
			t.Errorf("writing an excepted file: %v", err)
		}
		if text, err := os.ReadFile(there); err != nil || string(text) != "text." {
			t.Errorf("reading gives %q, %v", text, err)
		}
	}()
	<-done
}
