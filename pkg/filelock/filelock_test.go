package filelock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/filelock"
)

// holder is the environment variable that makes the test binary hold a lock.
const holder = "FILELOCK_TEST_PATH"

func TestMain(m *testing.M) {
	path := os.Getenv(holder)
	if path == "" {
		os.Exit(m.Run())
	}
	lock, err := filelock.Try(path)
	if err == nil {
		lock.WritePID()
	}
	fmt.Println("tried", err)
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

func locked(t *testing.T, path string) *filelock.Lock {
	t.Helper()
	lock, err := filelock.Try(path)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestOneHolderAtATime(t *testing.T) {
	dir := t.TempDir()
	for name, try := range map[string]func() (*filelock.Lock, error){
		"file":   func() (*filelock.Lock, error) { return filelock.Try(filepath.Join(dir, "lock")) },
		"folder": func() (*filelock.Lock, error) { return filelock.TryFolder(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			first, err := try()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := try(); filelock.Held(err) == nil {
				t.Fatalf("a second holder: %v", err)
			}
			if err := first.Release(); err != nil {
				t.Fatal(err)
			}
			again, err := try()
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Release(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestProcessThatIsKilled: the kernel releases a process's lock, and the error names the process.
func TestProcessThatIsKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holder+"="+path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "tried <nil>\n" {
		t.Fatalf("the holder says %q", line)
	}
	_, err = filelock.Try(path)
	if held := filelock.Held(err); held == nil || held.PID != cmd.Process.Pid || held.Path != path {
		t.Errorf("the error is %v, want process %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := locked(t, path).Release(); err != nil {
		t.Error(err)
	}
}

// TestReleaseBesideAFork: another descriptor of the same open file, like a child's
// between its fork and its exec, doesn't keep a released lock.
func TestReleaseBesideAFork(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock := locked(t, path)
	shared, err := unix.Dup(lock.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(shared)
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := locked(t, path).Release(); err != nil {
		t.Error(err)
	}
}

func TestWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock := locked(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := filelock.Wait(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for a holder ends with %v", err)
	}
	done := make(chan error)
	go func() {
		second, err := filelock.Wait(t.Context(), path)
		if err == nil {
			err = second.Release()
		}
		done <- err
	}()
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPathsThatCannotBeLocked(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func() (*filelock.Lock, error){
		"a symbolic link":     func() (*filelock.Lock, error) { return filelock.Try(filepath.Join(dir, "link")) },
		"no folder around it": func() (*filelock.Lock, error) { return filelock.Try(filepath.Join(dir, "none", "lock")) },
		"a file as a folder":  func() (*filelock.Lock, error) { return filelock.TryFolder(filepath.Join(dir, "file")) },
	} {
		if lock, err := try(); err == nil || filelock.Held(err) != nil || !strings.HasPrefix(err.Error(), "cannot lock "+dir) {
			t.Errorf("%s: %v, %v", name, lock, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "elsewhere")); err == nil {
		t.Error("a file was made where the link points")
	}
}
