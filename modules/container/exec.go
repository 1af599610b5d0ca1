package container

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/pkg/node"
)

// drainTime is how long what an exec said may take to come, once it has ended:
// a child that it left may hold its output open for ever.
const drainTime = 2 * time.Second

// Size is a terminal's, in characters.
type Size struct{ Width, Height uint16 }

// ExecOptions say what is run in a container.
type ExecOptions struct {
	// Args are the program and its arguments, Env is "NAME=value" over the
	// container's.
	Args, Env []string
	// Terminal gives it a terminal, of Width and Height if not 0.
	Terminal      bool
	Width, Height uint16
}

// ExecIO is what it reads and writes. Nil for nothing; with a terminal there
// is no Stderr. The end of Stdin is the end of its standard input.
type ExecIO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Resize         <-chan Size
}

// Exec runs a program in a container that runs, with the rights of its first
// process, and returns its exit code. It is killed when ctx is done.
//
// NotExist when there is no such container, Busy while it doesn't run, Invalid
// when the program can't be started.
func (s *Streams) Exec(ctx context.Context, id string, o ExecOptions, streams ExecIO) (uint32, error) {
	if err := o.validate(id); err != nil {
		return 0, err
	}
	in, found, err := s.cfg.find(ctx, s.daemon, id)
	if err != nil {
		return 0, err
	}
	t, status, err := task(in, found)
	if err != nil {
		return 0, err
	}
	if t == nil || status.Status != client.Running {
		return 0, node.Errorf(node.Busy, "cannot run %q in container %s: it doesn't run", o.Args[0], id)
	}
	of, err := found.Spec(in)
	if err != nil {
		return 0, containerd.Error(err, "read what container %s is", id)
	}
	end := newEnd(streams.Stdin)
	creator := cio.NewCreator(s.streams(o, streams, end)...)
	args := withSecrets(of.Process.Args, o.Args, o.Env)
	process, err := t.Exec(in, execID(), spec.Exec(of, args, o.Terminal, o.Env), creator)
	if err != nil {
		return 0, containerd.Error(err, "run %q in container %s", o.Args[0], id)
	}
	defer remove(in, process)
	return s.attend(in, process, o, streams.Resize, end)
}

func (o ExecOptions) validate(id string) error {
	if len(o.Args) == 0 || o.Args[0] == "" {
		return node.Errorf(node.Invalid, "cannot run anything in container %s: no program is named", id)
	}
	for _, text := range append(append([]string(nil), o.Args...), o.Env...) {
		if strings.Contains(text, "\x00") {
			return node.Errorf(node.Invalid, "cannot run anything in container %s: %.80q has a NUL", id, text)
		}
	}
	for _, variable := range o.Env {
		if name, _, ok := strings.Cut(variable, "="); !ok || name == "" {
			return node.Errorf(node.Invalid, "cannot run anything in container %s: Env has %.80q, must be NAME=value", id, variable)
		}
	}
	return nil
}

func (s *Streams) streams(o ExecOptions, streams ExecIO, end *end) []cio.Opt {
	stdout, stderr := streams.Stdout, streams.Stderr
	if stdout == nil {
		stdout = io.Discard
	}
	if stderr == nil {
		stderr = io.Discard
	}
	opts := []cio.Opt{cio.WithFIFODir(filepath.Join(s.cfg.execs(), me()))}
	if o.Terminal {
		return append(opts, cio.WithStreams(end.reader(), stdout, nil), cio.WithTerminal)
	}
	return append(opts, cio.WithStreams(end.reader(), stdout, stderr))
}

// attend starts an exec and is beside it until it has ended.
func (s *Streams) attend(ctx context.Context, p client.Process, o ExecOptions, resize <-chan Size, end *end) (uint32, error) {
	ended, err := p.Wait(ctx)
	if err != nil {
		return 0, containerd.Error(err, "wait for %q", o.Args[0])
	}
	if err := p.Start(ctx); err != nil {
		return 0, startError(err, p.ID())
	}
	if o.Terminal && o.Width > 0 && o.Height > 0 {
		_ = p.Resize(ctx, uint32(o.Width), uint32(o.Height)) // it may have ended
	}
	closed := end.done
	for {
		select {
		case <-ctx.Done():
			return 0, node.Errorf(node.Transient, "cannot wait for %q: %w", o.Args[0], ctx.Err())
		case <-closed:
			closed = nil
			_ = p.CloseIO(ctx, client.WithStdinCloser) // likewise
		case size, ok := <-resize:
			if !ok {
				resize = nil
			} else if o.Terminal && size.Width > 0 && size.Height > 0 {
				_ = p.Resize(ctx, uint32(size.Width), uint32(size.Height)) // likewise
			}
		case status := <-ended:
			code, _, err := status.Result()
			if err != nil {
				return 0, containerd.Error(err, "wait for %q", o.Args[0])
			}
			drain(p.IO())
			return code, nil
		}
	}
}

// drain waits until all that was said is written.
func drain(out cio.IO) {
	if out == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		out.Wait()
		close(done)
	}()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		out.Cancel()
	}
}

// remove kills an exec that still runs, and removes it.
func remove(ctx context.Context, p client.Process) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if ended, err := p.Wait(ctx); err == nil && p.Kill(ctx, syscall.SIGKILL) == nil {
		wait(ctx, ended, killTime)
	}
	if p.IO() != nil {
		p.IO().Cancel()
	}
	_, _ = p.Delete(ctx) // what isn't removed goes with its container
}

// end tells when a reader has come to its end.
type end struct {
	from io.Reader
	done chan struct{}
	once sync.Once
}

func newEnd(from io.Reader) *end {
	if from == nil {
		from = strings.NewReader("")
	}
	return &end{from: from, done: make(chan struct{})}
}

func (e *end) reader() io.Reader { return e }

// Read implements io.Reader.
func (e *end) Read(p []byte) (int, error) {
	n, err := e.from.Read(p)
	if err != nil {
		e.once.Do(func() { close(e.done) })
	}
	return n, err
}
