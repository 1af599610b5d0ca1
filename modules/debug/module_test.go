package debug

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/node/stubs"
)

func TestDebugConformance(t *testing.T) {
	s := newServer(t)
	open := func(t *testing.T) conformance.DebugClient {
		w := newWorld(t, loopback)
		client := conformance.OnBus[node.Debug](t, node.DebugModule, bus.Object(node.DebugObject, node.DebugVersion), w.Module)
		return stubs.NewDebugStub(client)
	}
	conformance.DebugSuite(t, func(t *testing.T) conformance.DebugSubject {
		return conformance.DebugSubject{Client: open(t), Restart: open, Host: host(), Port: s.port, Most: MaxStreams}
	})
}

func TestStartRefusesForbiddenAddresses(t *testing.T) {
	for _, c := range []struct {
		spec node.DebugSpec
		kind node.Kind
		says string
	}{
		{node.DebugSpec{ID: "1-1", Host: "127.0.0.1", Port: 6379, Channel: "c"}, node.Refused, "loopback (127.0.0.0/8); the node's operator may list an exception"},
		{node.DebugSpec{ID: "1-1", Host: "192.168.1.1", Port: 6379, Channel: "c"}, node.Refused, "private"},
		{node.DebugSpec{ID: "1-1", Host: "::1", Port: 6379, Channel: "c"}, node.Refused, "loopback"},
		{node.DebugSpec{ID: "1-1", Host: "0x7f.1", Port: 6379, Channel: "c"}, node.Invalid, "ends in a number"},
		{node.DebugSpec{ID: "1-1", Host: "h", Channel: "c"}, node.Invalid, "port"},
		{node.DebugSpec{ID: "1-1", Host: "h", Port: 1}, node.Invalid, "channel"},
		{node.DebugSpec{Host: "h", Port: 1, Channel: "c"}, node.Invalid, "ID"},
	} {
		w := newWorld(t)
		_, err := w.Start(c.spec)
		if node.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "cannot start log stream") {
			t.Errorf("%+v: %v", c.spec, err)
		}
		if all, _ := w.List(); len(all) != 0 {
			t.Errorf("left: %+v", all)
		}
	}
}

// A host that can't be resolved or reached now may be so later.
func TestStartDoesNotWaitForTheServer(t *testing.T) {
	w := newWorld(t, loopback)
	quick(t, "Start", func() {
		w.begin(node.DebugSpec{ID: "1-1", Host: "127.0.0.1", Port: 1, Channel: "c"})
	})
	w.begin(node.DebugSpec{ID: "2-1", Host: "no-such-host.invalid", Port: 1, Channel: "c"})
	until(t, "both say why", func() bool {
		return strings.Contains(w.one("1-1").LastError, "cannot dial 127.0.0.1:1") && strings.Contains(w.one("2-1").LastError, "cannot resolve")
	})
}

func TestWithoutStreamsNobodyListens(t *testing.T) {
	s := newServer(t)
	w := newWorld(t, loopback)
	listened := func() bool { return w.tap.listen.Load() != nil }
	if listened() {
		t.Error("it listens before there is a stream")
	}
	w.begin(specOf("1-1", s))
	w.begin(specOf("2-1", s))
	if !listened() {
		t.Error("it doesn't listen")
	}
	_ = w.Stop("1-1")
	if !listened() {
		t.Error("it doesn't listen any more though there is a stream")
	}
	_ = w.Stop("2-1")
	if listened() {
		t.Error("it listens though there is no stream")
	}
	w.begin(specOf("3-1", s))
	w.Close()
	if listened() {
		t.Error("it listens though it is closed")
	}
	if _, err := w.Start(specOf("4-1", s)); node.KindOf(err) != node.Transient {
		t.Errorf("a stream of a closed module: %v", err)
	}
}

func TestTheQueueKeepsTheNewest(t *testing.T) {
	q := newQueue()
	for i := range maxQueued + 10 {
		q.offer(newLine(fmt.Sprint(i)))
	}
	lines, lost := q.take(3)
	if lost != 10 || len(lines) != 3 || lines[0].raw != "10" {
		t.Fatalf("%d lost, %d lines, the first %s", lost, len(lines), lines[0].raw)
	}
	q.lose(5)
	if _, lost := q.take(1); lost != 5 || q.losses() != 15 {
		t.Fatalf("%d lost, %d in all", lost, q.losses())
	}
	big := newQueue()
	for range 100 {
		big.offer(newLine(strings.Repeat("x", maxRaw+5)))
	}
	if big.bytes > maxQueuedBytes || big.losses() != 100-maxQueuedBytes/maxRaw {
		t.Fatalf("%d bytes, %d dropped", big.bytes, big.losses())
	}
	if lines, _ := big.take(maxBatch); len(lines) != maxTaken/maxRaw {
		t.Fatalf("%d of the largest lines at once", len(lines))
	}
}

// BenchmarkTap compares a tap without streams to no tap.
func BenchmarkTap(b *testing.B) {
	for _, c := range []struct {
		name string
		out  io.Writer
	}{{"without", io.Discard}, {"nobody listens", NewTap(io.Discard)}, {"one listens", listening()}} {
		b.Run(c.name, func(b *testing.B) {
			log := zerolog.New(c.out).With().Timestamp().Logger()
			b.ReportAllocs()
			for b.Loop() {
				log.Info().Str("id", "1-1").Msg("attempt ended")
			}
		})
	}
}

func listening() *Tap {
	tap, q := NewTap(io.Discard), newQueue()
	tap.to(q.offer)
	return tap
}

// TestTheTapCostsNothing wants a tap without streams to allocate no memory.
func TestTheTapCostsNothing(t *testing.T) {
	tap, line := NewTap(io.Discard), []byte("{}\n")
	if n := testing.AllocsPerRun(1000, func() { _, _ = tap.Write(line) }); n != 0 {
		t.Errorf("%v allocations a line while nobody listens", n)
	}
}
