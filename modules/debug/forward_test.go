package debug

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/node/stubs"
)

// process is another process of the node, with its logger.
type process struct {
	tap *Tap
	log zerolog.Logger
}

func newProcess(t *testing.T, lines Lines) *process {
	t.Helper()
	p := &process{tap: NewTap(io.Discard)}
	p.log = zerolog.New(p.tap)
	f := NewForward(p.tap, "storage", lines, zerolog.Nop())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if p.listens() {
			t.Error("it listens after its end")
		}
	})
	return p
}

func (p *process) listens() bool { return p.tap.listen.Load() != nil }

func TestLinesOfOtherProcesses(t *testing.T) {
	s := newServer(t)
	w := newWorld(t, loopback)
	client := conformance.OnBus[node.LogLines](t, node.DebugModule, bus.Object(node.LogLinesObject, node.LogLinesVersion), w.Module)
	p := newProcess(t, stubs.NewLogLinesStub(client))
	until(t, "nobody wants its lines", func() bool { return !p.listens() })

	r := s.subscribe("logs-1-1")
	w.begin(specOf("1-1", s))
	until(t, "its lines are wanted", p.listens)
	p.log.Info().Str("token", "opensesame").Msg("of storage")
	w.log.Info().Msg("of debug")
	until(t, "both are there", func() bool { return r.has("of storage") && r.has("of debug") })
	if r.has("opensesame") {
		t.Errorf("a secret has left: %v", r.all())
	}

	// The lines of a process that starts later arrive from its first line on.
	late := NewTap(io.Discard)
	f := NewForward(late, "monitor", stubs.NewLogLinesStub(client), zerolog.Nop())
	_, _ = late.Write([]byte(`{"message":"starting"}` + "\n"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	until(t, "its first line is there", func() bool { return r.has("starting") })
	cancel()
	<-done

	if err := w.Stop("1-1"); err != nil {
		t.Fatal(err)
	}
	until(t, "nobody wants its lines any more", func() bool { return !p.listens() })
}

// lines is a debug module with prepared answers.
type lines struct {
	mu     sync.Mutex
	err    error
	wanted bool
	got    []node.LogBatch
	demand chan node.LogDemand
}

func (l *lines) set(err error, wanted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err, l.wanted = err, wanted
}

func (l *lines) Append(_ context.Context, b node.LogBatch) (node.LogDemand, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.got = append(l.got, b)
	}
	return node.LogDemand{Wanted: l.wanted}, l.err
}

func (l *lines) Demand(context.Context) (<-chan node.LogDemand, error) { return l.demand, nil }

// seen returns the lines received, and how many were reported as dropped.
func (l *lines) seen() (text string, lost uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.got {
		text += strings.Join(b.Lines, "\n") + "\n"
		lost += b.Dropped
	}
	return text, lost
}

func TestLinesThatMayNotHaveArrivedCount(t *testing.T) {
	l := &lines{wanted: true, demand: make(chan node.LogDemand)}
	p := newProcess(t, l)
	p.log.Info().Msg("first")
	until(t, "the first is there", func() bool { text, _ := l.seen(); return strings.Contains(text, "first") })
	l.set(node.Errorf(node.Unknown, "no answer"), true)
	for range 3 {
		p.log.Info().Msg("lost")
	}
	l.set(nil, true)
	p.log.Info().Msg("last")
	until(t, "the last is there", func() bool { text, _ := l.seen(); return strings.Contains(text, "last") })
	until(t, "each line came or is counted", func() bool {
		text, lost := l.seen()
		return strings.Count(text, `"lost"`)+int(lost) == 3
	})
}

func TestForwardStopsAfterItsDemand(t *testing.T) {
	l := &lines{wanted: true, demand: make(chan node.LogDemand)}
	f := NewForward(NewTap(&bytes.Buffer{}), "storage", l, zerolog.Nop())
	f.heard(node.LogDemand{Wanted: true})
	f.until = time.Now().Add(time.Minute)
	f.expire()
	if f.queue == nil {
		t.Error("it stopped before its time")
	}
	f.until = time.Now().Add(-time.Second)
	f.expire()
	if f.queue != nil || f.tap.listen.Load() != nil {
		t.Error("it still listens")
	}
	if err := f.Run(ended()); err != nil {
		t.Error(err)
	}
}
