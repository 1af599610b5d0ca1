package nodeapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

// pair returns a TCP connection's two ends.
func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	return near, far
}

// serve runs a command at the far end; the channel delivers its outcome.
func serve(ctx context.Context, far net.Conn, p nodeapi.Pulse, run func(context.Context, nodeapi.ExecIO) (uint32, error)) <-chan error {
	done := make(chan error, 1)
	go func() { done <- nodeapi.ServeExec(ctx, far, nil, p, run) }()
	return done
}

func outcome(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatal("it doesn't end")
		return nil
	}
}

func hang(ctx context.Context, _ nodeapi.ExecIO) (uint32, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

var quick = nodeapi.Pulse{Beat: 20 * time.Millisecond, Silence: time.Second}

// A process that doesn't read its input doesn't hide its user's disappearance.
func TestAVanishedUserIsSeenWhileStdinIsFull(t *testing.T) {
	near, far := pair(t)
	done := serve(t.Context(), far, quick, hang)
	go func() {
		frame := nodeapi.AppendFrame(nil, nodeapi.Frame{Kind: nodeapi.Stdin, Payload: make([]byte, nodeapi.MaxFrame)})
		for range 4 {
			_, _ = near.Write(frame)
		}
	}()
	if err := outcome(t, done); node.KindOf(err) != node.Transient || !strings.Contains(err.Error(), "said nothing for") {
		t.Errorf("got %v", err)
	}
}

// A user who sends more stdin than the credit is cut off.
func TestMoreStdinThanAllowedEndsTheCommand(t *testing.T) {
	near, far := pair(t)
	done := serve(t.Context(), far, nodeapi.Pulse{}, hang)
	frame := nodeapi.AppendFrame(nil, nodeapi.Frame{Kind: nodeapi.Stdin, Payload: make([]byte, nodeapi.MaxFrame)})
	for range 5 {
		_, _ = near.Write(frame)
	}
	go func() { _, _ = io.Copy(io.Discard, near); _ = near.Close() }()
	if err := outcome(t, done); node.KindOf(err) != node.Invalid || !strings.Contains(err.Error(), "more came than was allowed") {
		t.Errorf("got %v", err)
	}
}

// Frames of the other side's kinds, and invalid bytes, end a stream.
func TestForeignFramesEndTheCommand(t *testing.T) {
	for words, wire := range map[string][]byte{
		"is the node's to send": nodeapi.AppendFrame(nil, nodeapi.Frame{Kind: nodeapi.Stdout, Payload: []byte("x")}),
		"isn't known":           []byte("GET / HTTP/1.1\r\n\r\n"),
		"was closed":            append(head(6, 0), nodeapi.AppendFrame(nil, nodeapi.Frame{Kind: nodeapi.Stdin, Payload: []byte("x")})...),
		"has hung up":           nil,
	} {
		near, far := pair(t)
		done := serve(t.Context(), far, nodeapi.Pulse{}, hang)
		_, _ = near.Write(wire)
		_ = near.(*net.TCPConn).CloseWrite()
		if err := outcome(t, done); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", words, err)
		}
	}
}

// A user who reads earlier output isn't gone: nothing is cut off however
// long they take, and nothing is lost.
func TestASlowReaderLosesNothing(t *testing.T) {
	near, far := pair(t)
	const size = 16 << 20
	done := serve(t.Context(), far, quick, func(_ context.Context, s nodeapi.ExecIO) (uint32, error) {
		_, err := s.Stdout.Write(make([]byte, size))
		return 3, err
	})
	slow := &pausing{pause: time.After(4 * quick.Silence)}
	code, err := nodeapi.RunExec(t.Context(), near, nil, quick, nodeapi.ExecIO{Stdout: slow, Stderr: io.Discard})
	if err != nil || code != 3 || slow.n != size {
		t.Errorf("exit code %d, %d bytes, %v", code, slow.n, err)
	}
	if err := outcome(t, done); err != nil {
		t.Error(err)
	}
}

// pausing reads nothing until its time.
type pausing struct {
	pause <-chan time.Time
	once  sync.Once
	n     int
}

func (p *pausing) Write(b []byte) (int, error) {
	p.once.Do(func() { <-p.pause })
	p.n += len(b)
	return len(b), nil
}

// A silent node isn't waited for.
func TestASilentNodeIsSeen(t *testing.T) {
	near, _ := pair(t)
	_, err := nodeapi.RunExec(t.Context(), near, nil, quick, nodeapi.ExecIO{Stdout: io.Discard, Stderr: io.Discard})
	if node.KindOf(err) != node.Transient || !strings.Contains(err.Error(), "said nothing for") {
		t.Errorf("got %v", err)
	}
}

// Incomplete or wrong frames of a node are errors.
func TestANodesNonsenseIsAnError(t *testing.T) {
	for words, wire := range map[string][]byte{
		"is the user's to send": head(6, 0),
		"isn't known":           head(99, 0),
		"has gone before":       nil,
		"can't be read":         append(head(7, 2), "[]"...),
	} {
		near, far := pair(t)
		_, _ = far.Write(wire)
		_ = far.(*net.TCPConn).CloseWrite()
		_, err := nodeapi.RunExec(t.Context(), near, nil, nodeapi.Pulse{}, nodeapi.ExecIO{Stdout: io.Discard, Stderr: io.Discard})
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", words, err)
		}
	}
}

// Bytes read ahead of the switch aren't lost, and a user's output that fails
// ends the command.
func TestAnOutputThatFailsEndsTheCommand(t *testing.T) {
	near, far := pair(t)
	done := serve(t.Context(), far, nodeapi.Pulse{}, func(ctx context.Context, s nodeapi.ExecIO) (uint32, error) {
		if _, err := s.Stdout.Write([]byte("x")); err != nil {
			return 0, err
		}
		return hang(ctx, s)
	})
	full := errors.New("the disk is full")
	_, err := nodeapi.RunExec(t.Context(), near, nil, nodeapi.Pulse{}, nodeapi.ExecIO{Stdin: bytes.NewReader(nil), Stdout: failing{full}, Stderr: io.Discard})
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if err := outcome(t, done); err == nil {
		t.Error("the command runs on")
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
