package container

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/container/execs"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
)

// installInit builds croft's init and opens the module anew with it.
func (w *world) installInit() {
	w.Helper()
	w.close()
	w.cfg.Init = filepath.Join(w.dir, "croft-init")
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", w.cfg.Init, "../../cmd/croft-init")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		w.Fatalf("cannot build croft's init: %v\n%s", err, out)
	}
	log, err := os.Create(filepath.Join(w.dir, "log"))
	must(w, err)
	w.Cleanup(func() { _ = log.Close() })
	w.cfg.Log = zerolog.New(log).Level(zerolog.TraceLevel)
	w.cfg.Containerd.Log, w.cfg.Logs.Log, w.cfg.Image.Log = w.cfg.Log, w.cfg.Log, w.cfg.Log
	w.open()
}

// onDisk are the node's files that contain a text, except those in memory.
func (w *world) onDisk(text string) (found []string) {
	w.Helper()
	files := 0
	must(w, filepath.WalkDir(w.dir, func(path string, e fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		var on unix.Statfs_t
		if e.IsDir() {
			if unix.Statfs(path, &on) == nil && on.Type == unix.TMPFS_MAGIC {
				return fs.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() || unix.Statfs(path, &on) == nil && on.Type == unix.NSFS_MAGIC {
			return nil
		}
		raw, err := os.ReadFile(path)
		if files++; bytes.Contains(raw, []byte(text)) {
			found = append(found, path)
		}
		if os.IsNotExist(err) {
			return nil
		}
		return err
	}))
	if files < 10 {
		w.Fatalf("only %d files were looked at", files)
	}
	return found
}

// hasVariables checks that a container's first process and its execs have these
// variables.
func (w *world) hasVariables(pid uint64, want ...string) {
	w.Helper()
	code, out, errs := w.exec("1-1", "env")
	for _, variable := range want {
		eventually(w, "the first process has "+variable, func() bool {
			raw, err := os.ReadFile("/proc/" + strconv.FormatUint(pid, 10) + "/environ")
			must(w, err)
			return slices.Contains(strings.Split(string(raw), "\x00"), variable)
		})
		if !slices.Contains(strings.Split(out, "\n"), variable) {
			w.Errorf("what is run beside it (%d, %s) has %q, want %q", code, errs, out, variable)
		}
	}
}

func TestSecretVariablesAreOnNoDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.installInit()
	w.image("1-1", ocispec.ImageConfig{User: "1000:1000", Env: []string{"PATH=/bin", "TOKEN=the image's"}}, nil)
	s := w.spec("1-1", "serve", "hello")
	const hidden, shown = "hidden-4ae1c0ffee", "shown-4ae1c0ffee"
	s.Env, s.Secrets = node.Env{"PLAIN": shown}, node.Env{"TOKEN": hidden}
	variables := []string{"TOKEN=" + hidden, "PLAIN=" + shown, "PATH=/bin"}
	running := w.runs(s)
	w.says("1-1", "serving hello")
	w.hasVariables(running.PID, variables...)
	if len(w.onDisk(shown)) == 0 {
		t.Fatal("not even the plain variable is found on the disk: the search is blind")
	}
	nowhere := func(when string) {
		t.Helper()
		if found := w.onDisk(hidden); len(found) != 0 {
			t.Errorf("%s the secret is in %v", when, found)
		}
	}
	nowhere("while it runs")

	// It is started again after its end by itself, by the next agent too.
	must(t, syscall.Kill(int(running.PID), syscall.SIGKILL))
	again := w.is("1-1", "running again", func(i node.ContainerInfo) bool { return i.Restarts == 1 && i.State == node.ContainerRunning })
	w.hasVariables(again.PID, variables...)
	w.close()
	w.open()
	if same := w.runs(s); same.PID != again.PID {
		t.Errorf("process %d became %d", again.PID, same.PID)
	}
	nowhere("after it was started again")

	// What exec sets goes over the secrets.
	streams, err := OpenStreams(w.cfg, logs.NewFollowers())
	must(t, err)
	defer streams.Close()
	var out bytes.Buffer
	_, err = streams.Exec(t.Context(), "1-1", execs.Options{Args: []string{"tool", "env"}, Env: []string{"TOKEN=mine"}}, execs.Streams{Stdout: &out})
	if err != nil || !strings.Contains(out.String(), "TOKEN=mine\n") || strings.Contains(out.String(), hidden) {
		t.Errorf("an exec with a variable of its own has %q, %v", out.String(), err)
	}

	// A reboot takes them: Create brings them back.
	w.close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(t, TakeDown(ctx, w.cfg))
	nowhere("after a reboot")
	w.open()
	w.hasVariables(w.runs(s).PID, variables...)
	must(t, w.Delete("1-1"))
	if left, err := w.module.service.remover.secrets.List(); err != nil || len(left) != 0 {
		t.Errorf("secrets of %v are left, %v", left, err)
	}
	nowhere("after its end")
}

func TestOrphanedSecretsAreRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.module.service.remover.secrets.Put("ada", "7-1", node.Env{"A": "1"}))
	w.close()
	w.open()
	eventually(t, "they are removed", func() bool {
		left, err := w.module.service.remover.secrets.List()
		must(t, err)
		return len(left) == 0
	})
	// Its output goes next: the carrier that is started for that is taken down with the world only once it answers.
	eventually(t, "the log carrier is there", func() bool { return w.module.outputs.Running() != nil })
	s := w.spec("1-1")
	s.Secrets = node.Env{"A": "1"}
	_, err := w.Create(s)
	kind(t, err, node.Refused, "init", "not installed")
}
