package execs

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/plan"
	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/node"
)

// drainTime bounds the wait for an exec's output once it has ended: a child that it left may
// hold its output open for ever.
const drainTime = 2 * time.Second

// Size is a terminal's, in characters.
type Size struct{ Width, Height uint16 }

// Options describe a program run in a container.
type Options struct {
	// Args are the program and its arguments, Env is "NAME=value" over the
	// container's.
	Args, Env []string
	// Terminal gives it a terminal, of Width and Height if not 0.
	Terminal      bool
	Width, Height uint16
}

// Streams are an exec's standard streams. Nil for none; with a terminal there
// is no Stderr. The end of Stdin is the end of its standard input.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Resize         <-chan Size
}

// Runner runs execs, and ends those that are abandoned: of processes that have died.
type Runner struct {
	// Dir is where the FIFOs of execs lie, in a folder for each process.
	Dir string
	// Confine makes the AppArmor profile ready that a container's processes have: the kernel starts none with one that it hasn't.
	Confine func(profile string) error
	Log     zerolog.Logger
}

// Run runs a program in a container that runs, with the rights of its first
// process, and returns its exit code. It is killed when ctx, which has the user's namespace, is done.
//
// Busy while the container doesn't run, Invalid when the program can't be started, Transient when its AppArmor profile
// can't be loaded.
func (r Runner) Run(ctx context.Context, c client.Container, o Options, streams Streams) (uint32, error) {
	t, status, err := tasks.Current(ctx, c)
	if err != nil {
		return 0, err
	}
	if t == nil || status.Status != client.Running {
		return 0, node.Errorf(node.Busy, "cannot run %q in container %s: it doesn't run", o.Args[0], c.ID())
	}
	of, err := c.Spec(ctx)
	if err != nil {
		return 0, containerd.Error(err, "read the metadata of container %s", c.ID())
	}
	if err := r.Confine(of.Process.ApparmorProfile); err != nil {
		return 0, node.Errorf(node.Transient, "cannot run %q in container %s: %w", o.Args[0], c.ID(), err)
	}
	stdin := newEndReader(streams.Stdin)
	creator := cio.NewCreator(r.streams(o, streams, stdin)...)
	args := plan.ExecArgs(of.Process.Args, o.Args, o.Env)
	process, err := t.Exec(ctx, newID(), spec.Exec(of, args, o.Terminal, o.Env), creator)
	if err != nil {
		return 0, containerd.Error(err, "run %q in container %s", o.Args[0], c.ID())
	}
	defer tasks.DropExec(ctx, process)
	return attend(ctx, process, o, streams.Resize, stdin)
}

// Validate is Invalid for options that can't be run in a container.
func (o Options) Validate(id string) error {
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

func (r Runner) streams(o Options, streams Streams, stdin *endReader) []cio.Opt {
	stdout, stderr := streams.Stdout, streams.Stderr
	if stdout == nil {
		stdout = io.Discard
	}
	if stderr == nil {
		stderr = io.Discard
	}
	opts := []cio.Opt{cio.WithFIFODir(filepath.Join(r.Dir, thisProcess()))}
	if o.Terminal {
		return append(opts, cio.WithStreams(stdin, stdout, nil), cio.WithTerminal)
	}
	return append(opts, cio.WithStreams(stdin, stdout, stderr))
}

// attend starts an exec, passes on its terminal's sizes and the end of its input, and returns
// its exit code.
func attend(ctx context.Context, p client.Process, o Options, resize <-chan Size, stdin *endReader) (uint32, error) {
	ended, err := p.Wait(ctx)
	if err != nil {
		return 0, containerd.Error(err, "wait for %q", o.Args[0])
	}
	if err := p.Start(ctx); err != nil {
		return 0, tasks.StartError(err, p.ID())
	}
	if o.Terminal && o.Width > 0 && o.Height > 0 {
		_ = p.Resize(ctx, uint32(o.Width), uint32(o.Height)) // it may have ended
	}
	closed := stdin.done
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

// drain waits until all output is written.
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

// endReader tells when a reader has come to its end.
type endReader struct {
	from io.Reader
	done chan struct{}
	once sync.Once
}

func newEndReader(from io.Reader) *endReader {
	if from == nil {
		from = strings.NewReader("")
	}
	return &endReader{from: from, done: make(chan struct{})}
}

// Read implements io.Reader.
func (e *endReader) Read(p []byte) (int, error) {
	n, err := e.from.Read(p)
	if err != nil {
		e.once.Do(func() { close(e.done) })
	}
	return n, err
}
