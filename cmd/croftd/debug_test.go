package main_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// stream is a reservation for the node's log lines, to a port on loopback.
func stream(w *nodetest.World, nodeID string, port int, by sign.KeyPair) *workload.Reservation {
	w.Helper()
	r := &workload.Reservation{
		NodeID: nodeID, Type: workload.TypeDebug, Created: time.Now(), Duration: time.Hour,
		Data: json.RawMessage(fmt.Sprintf(`{"host":"127.0.0.1","port":%d}`, port)),
	}
	if err := r.Sign(by.Private()); err != nil {
		w.Fatal(err)
	}
	return r
}

// streams are the streams in the node's status.
func streams(n *nodetest.Node) map[string]node.DebugInfo {
	out := map[string]node.DebugInfo{}
	for _, s := range n.Status().Streams {
		out[s.ID] = s
	}
	return out
}

// listener is a node whose log lines its world's user may reserve, and the redis server that receives
// them.
func listener(t *testing.T, args ...string) (*nodetest.World, *nodetest.Node, *nodetest.LogServer) {
	t.Helper()
	t.Parallel()
	w := nodetest.New(t, bins)
	w.StartExplorer()
	logs := w.StartLogServer()
	return w, w.StartNode("n", append(args, "--debug-users", w.User.ID(), "--allow-private", logs.Address())...), logs
}

func TestLogLinesFromReservationToDeletion(t *testing.T) {
	w, n, logs := listener(t)
	lines := logs.Subscribe(n.ID + "-logs")
	r := w.Push(stream(w, n.ID, logs.Port, w.User))
	if result := w.Result(r, workload.StateOK); string(result.Data) != "null" && len(result.Data) != 0 {
		t.Errorf("data is %s", result.Data)
	}
	v := w.Reserve(n, time.Hour)
	w.Result(v, workload.StateOK)
	w.Until(nodetest.Soon, "the volume's lines arrive", func() bool {
		return lines.Has(`"id":"`+v.ID+`"`, `"step":"provision"`, "attempt ended")
	})
	for line := range strings.Lines(lines.Text()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line isn't JSON: %s", line)
		}
	}
	if s := streams(n)[r.ID]; !s.Connected || s.Sent == 0 || s.Dropped != 0 || s.User != w.User.ID() || s.Channel != n.ID+"-logs" {
		t.Errorf("the stream is %+v", s)
	}
	if got := w.Counters(n).Debug; got != 1 {
		t.Errorf("%d streams are counted", got)
	}
	w.Delete(r)
	w.Result(r, workload.StateDeleted)
	if left := streams(n); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	w.Until(nodetest.Soon, "the counters are 0", func() bool { return w.Counters(n).Debug == 0 })
	late := w.Reserve(n, time.Hour)
	w.Result(late, workload.StateOK)
	if lines.Has(`"id":"`+late.ID+`"`, "attempt ended") {
		t.Error("lines arrive after the deletion")
	}
	n.Stop()
}

func TestLogStreamNeedsOperatorsConsent(t *testing.T) {
	w, n, logs := listener(t)
	stranger, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	closed := w.StartNode("closed", "--debug-users", w.User.ID())
	for _, c := range []struct {
		name, want string
		r          *workload.Reservation
	}{
		{"a user who isn't listed", "user " + stranger.ID() + " may not have the node's logs; the operator lists users in debug-users",
			stream(w, n.ID, logs.Port, stranger)},
		{"loopback without an exception", "127.0.0.1 is in a range that is refused: loopback (127.0.0.0/8); the node's operator may list an exception",
			stream(w, closed.ID, logs.Port, w.User)},
		{"another port than the exception's", "the node's operator may list an exception", stream(w, n.ID, logs.Port+1, w.User)},
	} {
		got := w.Result(w.Push(c.r), workload.StateError).Error
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	if len(streams(n))+len(streams(closed)) != 0 {
		t.Errorf("streams: %+v, %+v", streams(n), streams(closed))
	}
}

func TestLogLinesResume(t *testing.T) {
	w, n, logs := listener(t)
	lines := logs.Subscribe(n.ID + "-logs")
	r := w.Push(stream(w, n.ID, logs.Port, w.User))
	w.Result(r, workload.StateOK)
	first := w.Reserve(n, time.Hour)
	w.Result(first, workload.StateOK)
	w.Until(nodetest.Soon, "lines arrive", func() bool { return lines.Has(`"id":"`+first.ID+`"`, "attempt ended") })

	logs.Kill()
	second := w.Reserve(n, time.Hour)
	w.Result(second, workload.StateOK)
	w.Until(nodetest.Soon, "the node says that the server is away", func() bool {
		s := streams(n)[r.ID]
		return !s.Connected && strings.Contains(s.LastError, "connection refused")
	})
	logs.Start()
	lines = logs.Subscribe(n.ID + "-logs")
	w.Until(nodetest.Soon, "it is connected again", func() bool { return streams(n)[r.ID].Connected })
	third := w.Reserve(n, time.Hour)
	w.Result(third, workload.StateOK)
	w.Until(nodetest.Soon, "lines arrive again", func() bool { return lines.Has(`"id":"`+third.ID+`"`, "attempt ended") })
	// The stream says so too, maybe before the test listens to the new server.
	if s := streams(n)[r.ID]; s.Dropped > 0 && !strings.Contains(n.Output(), "lines were dropped") {
		t.Errorf("%d lines were dropped, and nobody says so", s.Dropped)
	}

	n.Kill()
	n.Start()
	n.WaitReady()
	w.Until(nodetest.Soon, "the stream is there again", func() bool { return streams(n)[r.ID].Connected })
	fourth := w.Reserve(n, time.Hour)
	w.Result(fourth, workload.StateOK)
	w.Until(nodetest.Soon, "lines arrive of the new process", func() bool { return lines.Has(`"id":"`+fourth.ID+`"`, "attempt ended") })
	if there := n.Subvolumes(); len(there) != 4 {
		t.Errorf("of four volumes there are %v", there)
	}
}

func TestAFrozenLogServerDoesNotSlowTheNode(t *testing.T) {
	w, n, logs := listener(t)
	r := w.Push(stream(w, n.ID, logs.Port, w.User))
	w.Result(r, workload.StateOK)
	w.Until(nodetest.Soon, "it is connected", func() bool { return streams(n)[r.ID].Connected })
	logs.Signal(unix.SIGSTOP)
	for range 5 {
		start := time.Now()
		w.Result(w.Reserve(n, time.Hour), workload.StateOK)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("a volume took %s", took)
		}
	}
	w.Until(nodetest.Soon, "the node says so", func() bool { return streams(n)[r.ID].LastError != "" })
	start := time.Now()
	w.Delete(r)
	w.Result(r, workload.StateDeleted)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the deletion took %s", took)
	}
	n.Stop()
	logs.Signal(unix.SIGCONT)
}

func TestNoSecretIsInTheStream(t *testing.T) {
	t.Parallel()
	w := nodetest.New(t, bins)
	w.StartExplorer()
	liar, logs := startProxy(t, w), w.StartLogServer()
	n := w.StartNode("n", "--explorer", liar.URL, "--debug-users", w.User.ID(), "--allow-private", logs.Address())
	lines := logs.Subscribe(n.ID + "-logs")
	w.Result(w.Push(stream(w, n.ID, logs.Port, w.User)), workload.StateOK)
	forged := w.Volume(n.ID, 1, time.Hour)
	forged.ID, forged.Signature = "token=opensesame redis://u:opensesame@h/", nil
	liar.Slip(t, forged)
	w.Result(w.Reserve(n, time.Hour), workload.StateOK)
	w.Until(nodetest.Soon, "the node has logged it", func() bool { return strings.Contains(n.Output(), "opensesame") })
	w.Until(nodetest.Soon, "the line arrives", func() bool { return lines.Has("redis://[secret]@h/") })
	if lines.Has("opensesame") {
		t.Errorf("a secret has left:\n%s", lines.Text())
	}
}

// The node's log lines are those of all its processes.
func TestAsProcessesLogLines(t *testing.T) {
	t.Parallel()
	w := nodetest.New(t, bins)
	w.StartExplorer()
	logs := w.StartLogServer()
	n := w.StartSplit("n", "--debug-users", w.User.ID(), "--allow-private", logs.Address())
	lines := logs.Subscribe(n.ID + "-logs")
	r := w.Push(stream(w, n.ID, logs.Port, w.User))
	w.Result(r, workload.StateOK)
	v := w.Reserve(n.Node, time.Hour)
	w.Result(v, workload.StateOK)
	w.Until(nodetest.Soon, "lines of the engine arrive", func() bool {
		return lines.Has(`"part":"provision"`, `"id":"`+v.ID+`"`, "attempt ended")
	})
	for _, part := range []string{"identity", "monitor", "storage"} {
		n.Parts[part].Stop()
		w.Until(nodetest.Soon, "what "+part+" says at its end arrives", func() bool { return lines.Has(`"part":"`+part+`"`, "stopping") })
		n.StartPart(part)
		w.Until(nodetest.Soon, "what "+part+" says at its start arrives", func() bool { return lines.Has(`"part":"`+part+`"`, `"started"`) })
	}
	n.WaitReady()
	if s := streams(n.Node)[r.ID]; !s.Connected || s.Dropped != 0 {
		t.Errorf("the stream is %+v", s)
	}
	w.Delete(r)
	w.Result(r, workload.StateDeleted)
	n.StopAll()
}

// linesArrive reserves a volume, and reports whether its lines arrive within a few seconds of its result. Lines that are logged before
// the node's processes know that they are wanted don't.
func linesArrive(w *nodetest.World, n *nodetest.Node, lines *nodetest.Lines) bool {
	w.Helper()
	v := w.Reserve(n, time.Hour)
	w.Result(v, workload.StateOK)
	arrived := func() bool { return lines.Has(`"id":"`+v.ID+`"`, "attempt ended") }
	for end := time.Now().Add(5 * time.Second); !arrived(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			w.Delete(v) // the node's disk is small
			w.Result(v, workload.StateDeleted)
			return false
		}
	}
	return true
}

// The streams of a killed debug process are gone with it; the engine notices and repairs them, except
// for users whom the operator has removed from the list.
func TestAsProcessesStreamsComeBackOnlyForListedUsers(t *testing.T) {
	t.Parallel()
	w := nodetest.New(t, bins)
	w.StartExplorer()
	logs := w.StartLogServer()
	n := w.StartSplit("n", "--debug-users", w.User.ID(), "--allow-private", logs.Address())
	lines := logs.Subscribe(n.ID + "-logs")
	r := w.Push(stream(w, n.ID, logs.Port, w.User))
	w.Result(r, workload.StateOK)
	n.Parts["debug"].Kill()
	n.StartPart("debug")
	// The status shows what was seen last of the killed process until the new one answers.
	w.Until(nodetest.Soon, "the new process has the stream", func() bool {
		for line := range strings.Lines(n.Parts["debug"].Output()) {
			if strings.Contains(line, "log stream started") && strings.Contains(line, `"id":"`+r.ID+`"`) {
				return true
			}
		}
		return false
	})
	w.Until(nodetest.Soon, "lines arrive again", func() bool { return linesArrive(w, n.Node, lines) })

	stranger, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	n.Parts["provision"].Stop()
	for i, arg := range n.Args {
		if arg == w.User.ID() {
			n.Args[i] = stranger.ID()
		}
	}
	n.StartPart("provision")
	n.WaitReady()
	w.Until(nodetest.Soon, "the stream is gone", func() bool { return len(streams(n.Node)) == 0 })
}
