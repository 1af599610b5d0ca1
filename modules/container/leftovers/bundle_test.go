package leftovers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

func TestBundleInAnError(t *testing.T) {
	const ours = "/run/containerd/io.containerd.runtime.v2.task/croft-ada/1-1"
	for text, want := range map[string]string{
		"mkdir " + ours + ": file exists: unknown":                                        ours,
		"mkdir " + ours + ": permission denied":                                           "",
		"mkdir /run/containerd/io.containerd.runtime.v2.task/croft-bob/1-1: file exists":  "",
		"mkdir /run/containerd/io.containerd.runtime.v2.task/croft-ada/1-10: file exists": "",
		"mkdir /etc: file exists":                                                         "",
		"another error":                                                                   "",
	} {
		if got := bundleIn(errors.New(text), "croft-ada", "1-1"); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got := bundleIn(nil, "croft-ada", "1-1"); got != "" {
		t.Errorf("without an error: %q", got)
	}
}

// TestProcessesOfABundle: the node's processes in a bundle are killed, also where containerd has removed the
// bundle; those of other bundles and of containers aren't.
func TestProcessesOfABundle(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tasks := t.TempDir()
	for _, c := range []struct {
		what    string
		folder  string // of the process, below tasks
		removed bool   // as containerd does
		flags   uintptr
		killed  bool
	}{
		{what: "a shim", folder: "1-1", killed: true},
		{what: "a shim whose bundle was removed", folder: "1-1", removed: true, killed: true},
		{what: "a shim whose bundle is being removed", folder: ".1-1", killed: true},
		{what: "another container's shim", folder: "1-10"},
		{what: "another container's shim whose bundle was removed", folder: "1-10", removed: true},
		{what: "a container's process", folder: "1-1", flags: unix.CLONE_NEWUSER},
	} {
		dir := filepath.Join(tasks, c.folder)
		must(t, os.Mkdir(dir, 0o755))
		process := exec.CommandContext(ctx, "sleep", "infinity")
		process.Dir = dir
		process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: c.flags}
		must(t, process.Start())
		if c.removed {
			hidden := filepath.Join(tasks, "."+c.folder)
			must(t, os.Rename(dir, hidden))
			must(t, os.Remove(hidden))
		}
		if killed, err := killIn(ctx, filepath.Join(tasks, "1-1"), 0); err != nil || killed != c.killed {
			t.Errorf("%s: killed %v, %v; want %v", c.what, killed, err, c.killed)
		}
		// A process that was killed can't be ended otherwise any more.
		must(t, process.Process.Signal(unix.SIGTERM))
		_ = process.Wait()
		if status := process.ProcessState.Sys().(syscall.WaitStatus); (status.Signal() == syscall.SIGKILL) != c.killed {
			t.Errorf("%s ended by %v", c.what, status.Signal())
		}
		must(t, os.RemoveAll(dir))
	}
}

// TestAShimMayExit: a shim that exits within its time isn't killed; later it is.
func TestAShimMayExit(t *testing.T) {
	t.Parallel()
	for lasts, grace := range map[string]time.Duration{"1": time.Minute, "infinity": 100 * time.Millisecond} {
		process := exec.CommandContext(t.Context(), "sleep", lasts)
		process.Dir = t.TempDir()
		must(t, process.Start())
		killed, err := killIn(t.Context(), process.Dir, grace)
		if err != nil || killed != (lasts == "infinity") {
			t.Errorf("sleep %s, with %s: killed %v, %v", lasts, grace, killed, err)
		}
		_ = process.Wait()
	}
}

// TestBundleBehindALink: the kernel shows working folders without symbolic links.
func TestBundleBehindALink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "run/tasks/1-1"), 0o755))
	must(t, os.Symlink("run", filepath.Join(dir, "link")))
	process := exec.CommandContext(t.Context(), "sleep", "infinity")
	process.Dir = filepath.Join(dir, "run/tasks/1-1")
	must(t, process.Start())
	must(t, os.RemoveAll(filepath.Join(dir, "run/tasks")))
	if killed, err := killIn(t.Context(), filepath.Join(dir, "link/tasks/1-1"), 0); err != nil || !killed {
		t.Errorf("killed %v, %v", killed, err)
	}
	_ = process.Wait()
}

// TestABundleThatIsWrittenTo: the folder of a task is removed though somebody still writes there for a while.
func TestABundleThatIsWrittenTo(t *testing.T) {
	t.Parallel()
	bundle := filepath.Join(t.TempDir(), "1-1")
	must(t, os.Mkdir(bundle, 0o755))
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		var end time.Time
		for i := 0; end.IsZero() || time.Now().Before(end); i++ {
			// The folder may be removed between the making of it and of what is in it.
			if err := os.MkdirAll(filepath.Join(bundle, strconv.Itoa(i)), 0o755); err != nil && !os.IsNotExist(err) {
				ended <- err
				return
			}
			if i == 100 {
				end = time.Now().Add(300 * time.Millisecond)
				close(begun)
			}
		}
		ended <- nil
	}()
	select {
	case <-begun:
	case err := <-ended:
		t.Fatalf("nothing is written: %v", err)
	}
	for written := false; !written; {
		must(t, remove(t.Context(), bundle))
		select {
		case err := <-ended:
			must(t, err)
			written = true
		default:
		}
	}
	must(t, remove(t.Context(), bundle))
	if _, err := os.Lstat(bundle); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
