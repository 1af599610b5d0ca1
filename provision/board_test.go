package provision_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/provisioner"
)

// brokenBoard panics at the methods that it is told.
type brokenBoard struct {
	mu     sync.Mutex
	broken []string
	events []work.EventSpec
	shown  map[string]work.WorkloadSpec
	calls  map[string]int
}

func newBrokenBoard(broken ...string) *brokenBoard {
	return &brokenBoard{broken: broken, shown: map[string]work.WorkloadSpec{}, calls: map[string]int{}}
}

func (b *brokenBoard) call(method string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls[method]++
	if slices.Contains(b.broken, method) {
		panic("the board is broken at " + method)
	}
}

func (b *brokenBoard) called(method string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[method]
}

func (b *brokenBoard) Workloads(shown []work.WorkloadSpec, gone []string) {
	b.call("Workloads")
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range shown {
		b.shown[s.ID] = s
	}
	for _, id := range gone {
		delete(b.shown, id)
	}
}

func (b *brokenBoard) Orphans([]work.OrphanSpec) { b.call("Orphans") }

func (b *brokenBoard) Event(e work.EventSpec) {
	b.call("Event")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
}

// reasons are the reasons of an object's events, each run of the same once.
func (b *brokenBoard) reasons(object string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, e := range b.events {
		if e.Object == object {
			out = append(out, e.Operation+" "+e.Reason)
		}
	}
	return slices.Compact(out)
}

// TestABrokenBoardStopsNothing: a whole life goes on whichever method of the board fails at each call.
func TestABrokenBoardStopsNothing(t *testing.T) {
	for _, broken := range [][]string{{"Workloads"}, {"Orphans"}, {"Event"}, {"Workloads", "Orphans", "Event"}} {
		t.Run(strings.Join(broken, " "), func(t *testing.T) {
			board, watched := newBrokenBoard(broken...), &watchedProvisioner{}
			inWorld(t, func(w *world) {
				w.board = board
				w.limits.Drift = time.Minute
				w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeNetwork: watched}
			}, func(t *testing.T, w *world, n *incarnation) {
				volume := w.volume(yearLong)
				network := w.explorer.push(w.netOf("net", yearLong))
				w.answered(volume, workload.StateOK)
				w.answered(network, workload.StateOK)
				watched.change(network, "its bridge is gone")
				w.until("it is repaired", func() bool { s, err := n.engine.StatusOf(network); return err == nil && s.Restored == 1 })
				for _, id := range []string{volume, network} {
					w.remove(id)
					w.answered(id, workload.StateDeleted)
				}
				for _, method := range broken {
					if board.called(method) == 0 {
						t.Errorf("%s was never called", method)
					}
				}
			})
		})
	}
}

// eventLines are a workload's events in a log, each run of the same once.
func eventLines(t *testing.T, log string, kind workload.Type, id string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(log) {
		var e struct{ ID, Type, Step, Operation, Reason string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("a line that isn't JSON: %q: %v", line, err)
		}
		if e.Step == "event" && e.ID == id && e.Type == string(kind) {
			out = append(out, e.Operation+" "+e.Reason)
		}
	}
	return slices.Compact(out)
}

// lockedBuffer is the text of a log.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestALifeInEvents: a life with all four operations is on the board and in the log: made, drifted and repaired, deleted,
// forgotten.
func TestALifeInEvents(t *testing.T) {
	board, watched := newBrokenBoard(), &watchedProvisioner{}
	var log lockedBuffer
	inWorld(t, func(w *world) {
		w.board, w.log = board, zerolog.New(&log).Level(zerolog.InfoLevel)
		w.limits.Drift = time.Minute
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeNetwork: watched}
	}, func(t *testing.T, w *world, n *incarnation) {
		network := w.explorer.push(w.netOf("net", func(r *workload.Reservation) { r.Duration = 24 * time.Hour }))
		w.answered(network, workload.StateOK)
		watched.change(network, "its bridge is gone")
		w.until("it is repaired", func() bool { s, err := n.engine.StatusOf(network); return err == nil && s.Restored == 1 })
		w.remove(network)
		w.answered(network, workload.StateDeleted)
		time.Sleep(48 * time.Hour)
		w.until("it is forgotten", func() bool { return w.forgotten(network) })
		want := []string{"Put Created", "Secondary Drifted", "Secondary Restored", "Delete Deleted", "Purge Forgotten"}
		got := slices.DeleteFunc(board.reasons("network/"+network), func(r string) bool { return r == "Put Pulling" })
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		logged := slices.DeleteFunc(eventLines(t, log.String(), workload.TypeNetwork, network), func(r string) bool { return r == "Put Pulling" })
		if !slices.Equal(logged, want) {
			t.Fatalf("logged are %q, want %q", logged, want)
		}
		board.mu.Lock()
		defer board.mu.Unlock()
		for _, e := range board.events {
			if e.User != w.user.ID() {
				t.Errorf("an event of another user: %+v", e)
			}
		}
		if len(board.shown) != 0 {
			t.Errorf("still shown: %v", board.shown)
		}
	})
}

// TestRefusedOnesMakeNoEvents, in their whole life, and take with them what the board shows of them.
func TestRefusedOnesMakeNoEvents(t *testing.T) {
	board := newBrokenBoard()
	inWorld(t, func(w *world) {
		w.board = board
		w.admission = roomFor(t, gib(1), admit.Defaults())
	}, func(t *testing.T, w *world, _ *incarnation) {
		there := w.volume(yearLong)
		w.answered(there, workload.StateOK)
		refused := w.volume(func(r *workload.Reservation) { r.Duration = 24 * time.Hour })
		w.answered(refused, workload.StateError)
		time.Sleep(48 * time.Hour)
		w.until("it is forgotten", func() bool { return w.forgotten(refused) })
		if got := board.reasons("volume/" + refused); len(got) != 0 {
			t.Errorf("its events are %q", got)
		}
		if got := board.reasons("volume/" + there); len(got) == 0 {
			t.Error("the other one has no events, either")
		}
		board.mu.Lock()
		defer board.mu.Unlock()
		if _, shown := board.shown[refused]; shown || len(board.shown) != 1 {
			t.Errorf("shown are %v", board.shown)
		}
	})
}

// TestWhatIsNotTakenIsCounted: exactly, by cause, without events. A redelivery of what is in the records is no refusal.
func TestWhatIsNotTakenIsCounted(t *testing.T) {
	const data = `{"size":1,"type":"SSD"}`
	board := newBrokenBoard()
	inWorld(t, func(w *world) {
		w.board, w.admission = board, roomFor(t, gib(1), admit.Defaults())
	}, func(t *testing.T, w *world, n *incarnation) {
		w.explorer.garble(`"text"`)
		w.explorer.garble(`{"id":5}`)
		w.explorer.pushAs("../1", w.reserve(workload.TypeVolume, data, nil))
		other := newKey(t)
		stolen := w.reserve(workload.TypeVolume, data, nil)
		stolen.User = other.ID()
		if err := stolen.Sign(other.Private()); err != nil {
			t.Fatal(err)
		}
		stolen.User = w.user.ID()
		w.explorer.push(stolen)
		changed := w.reserve(workload.TypeVolume, data, nil)
		changed.Data = json.RawMessage(`{"size":2,"type":"SSD"}`)
		w.explorer.push(changed)
		w.explorer.push(w.reserve(workload.TypeVolume, data, func(r *workload.Reservation) { r.NodeID = other.ID() }))

		there := w.volume(yearLong)
		w.answered(there, workload.StateOK)
		refused := w.volume(yearLong) // there is no room
		w.answered(refused, workload.StateError)
		w.explorer.mu.Lock()
		genuine := w.explorer.docs[there]
		w.explorer.mu.Unlock()
		w.answered(w.explorer.pushAs("9000-1", genuine), workload.StateError)
		for _, id := range []string{there, refused} {
			w.explorer.change(id, func(*workload.Reservation) {})
		}
		time.Sleep(time.Minute)
		want := map[string]uint64{"unreadable": 3, "forged": 3, "replayed": 1, "refused": 1}
		if got := n.engine.Refused(); !maps.Equal(got, want) {
			t.Errorf("counted are %v, want %v", got, want)
		}
		board.mu.Lock()
		defer board.mu.Unlock()
		for _, e := range board.events {
			if e.Object != "volume/"+there {
				t.Errorf("an event of one that wasn't taken: %+v", e)
			}
		}
	})
}

// TestWhatIsResentIsShownOnce: the record of the first one is gone, and so is what was shown of it.
func TestWhatIsResentIsShownOnce(t *testing.T) {
	board := newBrokenBoard()
	inWorld(t, func(w *world) {
		w.board, w.acceptV1 = board, true
	}, func(t *testing.T, w *world, _ *incarnation) {
		v1 := func(r *workload.Reservation) { r.Version, r.Duration = workload.V1, 300*day }
		w.storage.failing("create 1-1", node.Errorf(node.Invalid, "cannot make it"))
		first := w.volume(v1)
		w.answered(first, workload.StateError)
		time.Sleep(time.Hour)
		second := w.volume(v1)
		w.answered(second, workload.StateOK)
		board.mu.Lock()
		defer board.mu.Unlock()
		if _, shown := board.shown[first]; shown || len(board.shown) != 1 {
			t.Errorf("shown are %v, want %s alone", board.shown, second)
		}
	})
}
