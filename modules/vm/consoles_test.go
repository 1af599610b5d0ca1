package vm

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

// TestConsole: a console is attached by one reader at a time, again after it was left, and ends with its VM.
func TestConsole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("7-1")
	m := w.open(w.config())
	consoles := NewConsoles(w.config().RunDir)
	if err := consoles.Attach(t.Context(), "7-1", nil, io.Discard); node.KindOf(err) != node.NotExist {
		t.Errorf("the console of no VM: %v", err)
	}
	if err := consoles.Attach(t.Context(), "../7-1", nil, io.Discard); node.KindOf(err) != node.Invalid {
		t.Errorf("the console of a path: %v", err)
	}
	_, err := m.Run(w.spec())
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = w.client().Wait(ctx)
	must(t, err)
	for range 2 {
		keys, left := w.attach(ctx, consoles)
		if err := consoles.Attach(ctx, "7-1", nil, io.Discard); node.KindOf(err) != node.Busy {
			t.Errorf("attached twice: %v", err)
		}
		must(t, keys.Close())
		if err := <-left; err != nil {
			t.Errorf("left, it ended with %v", err)
		}
	}
	_, left := w.attach(ctx, consoles)
	must(t, m.Delete("7-1"))
	if err := <-left; err != nil {
		t.Errorf("with its VM it ended with %v", err)
	}
	nothingLeft(t, w, m)
}

// attach attaches the console of VM 7-1 and types until its guest answers.
func (w *world) attach(ctx context.Context, consoles *Consoles) (keys io.WriteCloser, left <-chan error) {
	w.t.Helper()
	stdin, keys := io.Pipe()
	output, done := &console{}, make(chan error, 1)
	go func() { done <- consoles.Attach(ctx, "7-1", stdin, output) }()
	go func() { _, _ = io.WriteString(keys, "ping\n") }()
	eventually(w.t, "the console answers", func() error {
		if text := output.String(); !strings.Contains(text, "pong") {
			return fmt.Errorf("it has %q", text)
		}
		return nil
	})
	return keys, done
}
