package container

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"

	"github.com/croft-edge/croft/modules/container/execs"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
)

// buffer may be read while it is written.
type buffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

// streams are those of the world's containers.
func (w *world) streams() *Streams {
	w.Helper()
	s, err := OpenStreams(w.cfg, logs.NewFollowers())
	must(w, err)
	w.Cleanup(func() { _ = s.Close() })
	return s
}

// exec runs the tool in a container.
func (w *world) exec(id string, args ...string) (code uint32, stdout, stderr string) {
	w.Helper()
	s := newStreams(w.cfg.withDefaults(), w.module.daemon, logs.NewFollowers())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out, errs buffer
	code, err := s.Exec(ctx, id, execs.Options{Args: append([]string{"/bin/tool"}, args...)}, execs.Streams{Stdout: &out, Stderr: &errs})
	if err != nil {
		w.Fatalf("cannot run %v: %v", args, err)
	}
	return code, out.String(), errs.String()
}

// execs is the number of processes in a container beside its first.
func (w *world) execs(id string) int {
	w.Helper()
	ctx, t := w.task(id)
	all, err := t.Pids(ctx)
	must(w, err)
	return len(all) - 1
}

func TestExec(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs(w.spec("1-1", "serve"))
	s := w.streams()
	user, err := s.Owner(t.Context(), "1-1")
	if err != nil || user != "ada" {
		t.Errorf("owner %q (%v)", user, err)
	}
	_, err = s.Owner(t.Context(), "1-2")
	kind(t, err, node.NotExist)

	run := func(o execs.Options, streams execs.Streams) (uint32, error) {
		return s.Exec(t.Context(), "1-1", o, streams)
	}
	var out, errs buffer
	code, err := run(execs.Options{Args: []string{"tool", "exit", "42"}}, execs.Streams{Stdout: &out, Stderr: &errs})
	if err != nil || code != 42 || !strings.Contains(out.String(), "line 29\n") || errs.String() != "the end\n" {
		t.Errorf("exit code %d, %q, %q (%v)", code, out.String(), errs.String(), err)
	}
	// All input comes out again, to its end.
	for _, size := range []int{0, 1, 3 << 20} {
		var out, errs buffer
		text := strings.Repeat("x", size)
		code, err = run(execs.Options{Args: []string{"/bin/tool", "cat"}}, execs.Streams{Stdin: strings.NewReader(text), Stdout: &out, Stderr: &errs})
		if err != nil || code != 0 || out.String() != text || !strings.HasPrefix(errs.String(), fmt.Sprint(size)) {
			t.Errorf("of %d bytes %d came back, %q (%v)", size, len(out.String()), errs.String(), err)
		}
	}
	var flood buffer
	code, err = run(execs.Options{Args: []string{"tool", "flood", "20000"}}, execs.Streams{Stdout: &flood})
	if err != nil || code != 0 || strings.Count(flood.String(), "\n") != 20000 {
		t.Errorf("%d of 20000 lines came (%v)", strings.Count(flood.String(), "\n"), err)
	}
	var env buffer
	_, err = run(execs.Options{Args: []string{"tool", "env"}, Env: []string{"COLOUR=blue"}}, execs.Streams{Stdout: &env})
	if err != nil || !strings.Contains(env.String(), "COLOUR=blue") || !strings.Contains(env.String(), "PATH=/bin") {
		t.Errorf("its environment is %q (%v)", env.String(), err)
	}
	// A child that holds the output open doesn't hold up the answer.
	start := time.Now()
	code, err = run(execs.Options{Args: []string{"tool", "leave"}}, execs.Streams{Stdout: &out})
	if took := time.Since(start); err != nil || code != 0 || took > 30*time.Second {
		t.Errorf("one that left a child: %d (%v) after %s", code, err, took)
	}
	if left, _ := filepath.Glob(filepath.Join(w.cfg.execs().Dir, "*", "*")); len(left) != 0 {
		t.Errorf("%v is left of execs", left)
	}
	_, err = run(execs.Options{Args: []string{"/bin/nothing"}}, execs.Streams{})
	kind(t, err, node.Invalid, "nothing")
	_, err = run(execs.Options{}, execs.Streams{})
	kind(t, err, node.Invalid)
	_, err = s.Exec(t.Context(), "1-2", execs.Options{Args: []string{"x"}}, execs.Streams{})
	kind(t, err, node.NotExist)
	_, err = w.Create(w.spec("1-2", "serve"))
	must(t, err)
	_, err = s.Exec(t.Context(), "1-2", execs.Options{Args: []string{"x"}}, execs.Streams{})
	kind(t, err, node.Busy)
}

func TestExecWithATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs(w.spec("1-1", "serve"))
	in, typed := io.Pipe()
	resize := make(chan execs.Size)
	var out buffer
	done := make(chan error, 1)
	go func() {
		code, err := w.streams().Exec(t.Context(), "1-1", execs.Options{Args: []string{"tool", "size"}, Terminal: true, Width: 97, Height: 31},
			execs.Streams{Stdin: in, Stdout: &out, Resize: resize})
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d", code)
		}
		done <- err
	}()
	eventually(t, "the terminal has its size", func() bool { return strings.Contains(out.String(), "size 97 31 <nil>") })
	resize <- execs.Size{Width: 120, Height: 40}
	eventually(t, "the terminal has its new size", func() bool { return strings.Contains(out.String(), "size 120 40 <nil>") })
	_, err := typed.Write([]byte("\r"))
	must(t, err)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "\r\n") {
		t.Errorf("%q isn't a terminal's", out.String())
	}
}

func TestCancelledExecIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs(w.spec("1-1", "serve"))
	s := w.streams()
	for _, terminal := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		in, _ := io.Pipe() // a client that says nothing
		done := make(chan error, 1)
		go func() {
			_, err := s.Exec(ctx, "1-1", execs.Options{Args: []string{"tool", "sleep"}, Terminal: terminal}, execs.Streams{Stdin: in, Stdout: io.Discard, Stderr: io.Discard})
			done <- err
		}()
		eventually(t, "it runs", func() bool { return w.execs("1-1") == 1 })
		cancel()
		if err := <-done; err == nil {
			t.Error("an abandoned exec has no error")
		}
		eventually(t, "it is gone", func() bool { return w.execs("1-1") == 0 })
	}
}

func TestAnExecOfADeadProcessIsEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs(w.spec("1-1", "serve"))
	ctx, running := w.task("1-1")
	built, err := w.load("1-1").Spec(ctx)
	must(t, err)
	process := *built.Process
	process.Args = []string{"/bin/tool", "sleep"}
	// As a process left it that was killed: no process has that ID.
	left, err := running.Exec(ctx, execs.Prefix+"4194999-123-abc", &process, cio.NullIO)
	must(t, err)
	must(t, left.Start(ctx))
	process.Args = []string{"/bin/tool", "stubborn"}
	other, err := running.Exec(ctx, "somebodys", &process, cio.NullIO)
	must(t, err)
	must(t, other.Start(ctx))
	if n := w.execs("1-1"); n != 2 {
		t.Fatalf("%d execs", n)
	}
	folder := filepath.Join(w.cfg.execs().Dir, "4194999-123")
	must(t, os.MkdirAll(folder, 0o700))
	w.close()
	w.open()
	eventually(t, "the left one is ended", func() bool { return w.execs("1-1") == 1 })
	eventually(t, "its folder is removed", func() bool {
		_, err := os.Stat(folder)
		return os.IsNotExist(err)
	})
	ctx, running = w.task("1-1")
	other, err = running.LoadProcess(ctx, "somebodys", nil)
	must(t, err)
	if status, err := other.Status(ctx); err != nil || status.Status != client.Running {
		t.Errorf("somebody else's is %v (%v)", status, err)
	}
}

func TestLogsAndStats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs(w.spec("1-1", "serve", "hello"))
	w.says("1-1", "serving hello")
	s := w.streams()
	var lines []node.LogLine
	must(t, s.Logs(t.Context(), "1-1", LogOptions{Tail: 10}, func(l node.LogLine) error { lines = append(lines, l); return nil }))
	if len(lines) != 1 || lines[0].Text != "serving hello" || lines[0].Stream != "stdout" || lines[0].At == 0 {
		t.Errorf("logs %+v", lines)
	}
	kind(t, s.Logs(t.Context(), "1-2", LogOptions{Tail: 10}, nil), node.NotExist)
	_, err := w.Logs("1-2", 10)
	kind(t, err, node.NotExist)

	use, err := s.Stats(t.Context(), "1-1")
	must(t, err)
	if use.ID != "1-1" || use.CPU == 0 || use.Memory == 0 || use.Memory > 256<<20 || use.MemoryLimit != 256<<20 || use.PIDs == 0 || use.PIDsLimit == 0 || use.At == 0 {
		t.Errorf("stats %+v", use)
	}
	_, err = w.Stats("1-2")
	kind(t, err, node.NotExist)
	_, err = w.Create(w.spec("1-2", "serve"))
	must(t, err)
	_, err = w.Stats("1-2")
	kind(t, err, node.Busy)
	if lines, err := w.Logs("1-2", 10); err != nil || lines == nil || len(lines) != 0 {
		t.Errorf("one that never ran has logs %v (%v)", lines, err)
	}

	status, err := w.Status()
	if err != nil || !status.Own || status.Containers != 2 || status.LogCarrier == 0 || status.LogCarrierMemory == 0 || status.Error != "" || status.Cgroup == 0 || status.Version == "" {
		t.Errorf("status %+v (%v)", status, err)
	}
}
