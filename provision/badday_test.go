package provision_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// fullDisk makes a store's writes fail while it is full.
type fullDisk struct {
	mu   sync.Mutex
	full bool
	// left is how many steps succeed before steps fail.
	left int
}

func (d *fullDisk) set(full bool, left int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full, d.left = full, left
}

func (d *fullDisk) hook(p atomicfile.Point) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.full {
		return nil
	}
	if d.left > 0 {
		d.left--
		return nil
	}
	return node.Errorf(node.NoSpace, "cannot write: no space left on device")
}

// A disk that fills up at any step costs time, nothing else: each number of steps that
// still succeed is tried.
func TestAFullDiskInTheMiddleOfAnything(t *testing.T) {
	for left := range 24 {
		disk := &fullDisk{}
		inWorld(t, func(w *world) {
			if err := w.records.Close(); err != nil {
				w.t.Fatal(err)
			}
			var err error
			w.records, err = store.Open(store.Config{Root: w.dir, NewNode: true, Hook: disk.hook})
			if err != nil {
				w.t.Fatal(err)
			}
		}, func(t *testing.T, w *world, _ *incarnation) {
			kept, deleted := w.volume(nil), w.volume(nil)
			w.answered(kept, workload.StateOK)
			w.answered(deleted, workload.StateOK)
			disk.set(true, left)
			late := w.volume(nil)
			w.remove(deleted)
			time.Sleep(10 * time.Minute)
			if got := w.explorer.result(late); got != nil && w.phase(late) != store.Deployed {
				t.Fatalf("told %s, while the record says %s", got.State, w.phase(late))
			}
			disk.set(false, 0)
			w.answered(late, workload.StateOK)
			w.answered(deleted, workload.StateDeleted)
			if names := w.storage.names(); !slices.Equal(names, []string{kept, late}) || w.storage.creations(late) != 1 || w.phase(kept) != store.Deployed {
				t.Fatalf("after %d steps: on the node is %v, made %d times", left, names, w.storage.creations(late))
			}
		})
	}
}

func TestAStoreThatLostItsPast(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		id := w.volume(yearLong)
		w.answered(id, workload.StateOK)
		time.Sleep(time.Hour)
		n.stop(t)
		if err := w.records.Close(); err != nil {
			t.Fatal(err)
		}
		w.dir = filepath.Join(w.dir, "new")
		lost, err := store.Open(store.Config{Root: w.dir, Clock: w.clock})
		if err != nil {
			t.Fatal(err)
		}
		w.records = lost
		if err := w.cursor.SetCursor(lost.Cursor()); err != nil {
			t.Fatal(err)
		}
		*n = *w.start(newStepper(""))
		r := w.answered(id, workload.StateError)
		if !strings.Contains(r.Error, "store") {
			t.Fatalf("the user is told %q", r.Error)
		}
		if got := n.engine.Orphans(); len(got) != 1 || got[0].ID != id {
			t.Fatalf("orphans are %+v", got)
		}
		time.Sleep(time.Second) // a reservation created at the very moment of birth isn't after it
		fresh := w.volume(nil)
		w.answered(fresh, workload.StateOK)

		// The operator asserts that no reservation ended before the store was lost.
		if err := lost.AcceptOlder(); err != nil {
			t.Fatal(err)
		}
		w.explorer.change(id, func(*workload.Reservation) {})
		w.answered(id, workload.StateOK)
		if w.storage.creations(id) != 1 || len(n.engine.Orphans()) != 0 {
			t.Fatalf("made %d times, orphans %v", w.storage.creations(id), n.engine.Orphans())
		}
	})
}

func TestARefusalStaysOneWhenItIsBroughtAgain(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		w.storage.failing("create 1-1", node.Errorf(node.NoSpace, "cannot create: no room"))
		id := w.volume(nil)
		first := w.answered(id, workload.StateError)
		w.explorer.restoreBackup("another", func(string) bool { return true })
		if again := w.answered(id, workload.StateError); again.Sequence != first.Sequence || w.storage.creations(id) != 0 {
			t.Fatalf("answered %+v, then %+v", first, again)
		}
	})
}

func TestOrphanFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orphans")
	book := provision.NewOrphanFile(path)
	if got, err := book.Load(); err != nil || len(got) != 0 {
		t.Fatalf("without a file: %v, %v", got, err)
	}
	want := []provision.Orphan{{Type: workload.TypeVolume, ID: "1-1", Since: time.Unix(1, 5).UTC()}, {Type: workload.TypeZDB, ID: "2-1"}}
	if err := book.Save(want); err != nil {
		t.Fatal(err)
	}
	if got, err := provision.NewOrphanFile(path).Load(); err != nil || !slices.Equal(got, want) {
		t.Fatalf("after a restart: %v, %v", got, err)
	}
	if err := atomicfile.WriteFile(path, []byte("[torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := book.Load(); err == nil {
		t.Fatal("a torn file is read without an error")
	}
	if err := provision.NewOrphanFile(filepath.Join(path, "x")).Save(want); err == nil {
		t.Fatal("what can't be written is no error")
	}
}

// A module that hangs blocks its own type's slot, and nothing else.
func TestAHangingModuleLeavesTheNodeToTheOthers(t *testing.T) {
	const hanging = 20
	prov := &fakeProvisioner{answer: func(ctx context.Context, _ *workload.Reservation) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, node.WithKind(node.Unknown, ctx.Err())
	}}
	inWorld(t, func(w *world) {
		w.limits.Provision = 30 * time.Second
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: prov}
	}, func(t *testing.T, w *world, n *incarnation) {
		for range hanging {
			w.explorer.push(w.reserve(workload.TypeContainer, containerData, nil))
		}
		time.Sleep(time.Second)
		start := time.Now()
		for range 10 {
			w.answered(w.volume(nil), workload.StateOK)
		}
		if took := time.Since(start); took > time.Second {
			t.Fatalf("ten volumes took %s beside a module that hangs", took)
		}
		time.Sleep(time.Hour)
		if calls := len(prov.calls()); calls < 20 || calls > 125 { // one at a time, half a minute each
			t.Fatalf("the module that hangs was asked %d times in an hour", calls)
		}
		prov.mu.Lock()
		prov.answer = nil
		prov.mu.Unlock()
		for i := range hanging {
			w.until("it recovers", func() bool {
				r := w.explorer.result(fmt.Sprintf("%d-1", i+1))
				return r != nil && r.State == workload.StateOK
			})
		}
	})
}

// Waiting for a clock costs no write per try.
func TestWaitingWritesNothing(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, n *incarnation) {
		w.clock.set(-30*365*day, false, false)
		id := w.explorer.push(w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, func(r *workload.Reservation) {
			r.Created, r.Duration = time.Now(), 300*day
		}))
		w.until("it waits", func() bool {
			rec, err := w.records.Record(id)
			return err == nil && rec.Phase == store.Waiting
		})
		before := len(n.steps.all())
		time.Sleep(24 * time.Hour)
		if after := len(n.steps.all()); after > before+64 { // the modules are looked at, once an hour here
			t.Fatalf("%d steps in a day of waiting", after-before)
		}
		w.clock.set(0, true, true)
		w.answered(id, workload.StateOK)
	})
}

// Junk costs no writes, few log lines, and no events: it is counted by cause.
func TestJunkDoesNotFillTheLogOrTheDisk(t *testing.T) {
	var lines lineCounter
	board := newBrokenBoard()
	inWorld(t, func(w *world) {
		w.log, w.board = zerolog.New(&lines).Level(zerolog.WarnLevel), board
	}, func(t *testing.T, w *world, n *incarnation) {
		for range 2000 {
			r := w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, nil)
			r.Duration++
			w.explorer.push(r)
		}
		w.explorer.pushAs("../../etc/passwd", w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, nil))
		for i := range 3 {
			w.explorer.garble(strconv.Itoa(i))
		}
		last := w.volume(nil)
		w.answered(last, workload.StateOK)
		want := map[string]uint64{"unreadable": 1 + 3, "forged": 2000, "replayed": 0, "refused": 0}
		if got := n.engine.Refused(); !maps.Equal(got, want) {
			t.Errorf("counted are %v, want %v", got, want)
		}
		board.mu.Lock()
		for _, e := range board.events {
			if e.Object != "volume/"+last {
				t.Errorf("an event of junk: %+v", e)
			}
		}
		board.mu.Unlock()
		if got := lines.count.Load(); got < 1 || got > 200 {
			t.Fatalf("%d lines in the log", got)
		}
		if recs, err := w.records.List(); err != nil || len(recs) != 1 {
			t.Fatalf("%d records, %v", len(recs), err)
		}
	})
}

type lineCounter struct{ count atomic.Int64 }

func (l *lineCounter) Write(p []byte) (int, error) {
	l.count.Add(1)
	return len(p), nil
}

// An explorer that replays without end, and takes no results, fills no disk.
func TestReplaysWithoutEndFillNoDisk(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		id := w.volume(nil)
		w.answered(id, workload.StateOK)
		w.explorer.setDeaf(true)
		w.explorer.mu.Lock()
		genuine := w.explorer.docs[id]
		w.explorer.mu.Unlock()
		for i := range 1200 {
			w.explorer.pushAs(fmt.Sprintf("%d-1", 5000+i), genuine)
		}
		last := w.volume(nil)
		w.until("all of it was handled", func() bool {
			rec, err := w.records.Record(last)
			return err == nil && rec.Phase == store.Deployed
		})
		recs, err := w.records.List()
		if err != nil || len(recs) != 2+1000 {
			t.Fatalf("%d records, must be 2 and 1000 refusals: %v", len(recs), err)
		}
		w.explorer.setDeaf(false)
		w.answered(last, workload.StateOK)
		w.until("the answered refusals are gone", func() bool {
			recs, err := w.records.List()
			return err == nil && len(recs) == 2
		})
	})
}

// While the clock is in doubt, the number of accepted reservations is bounded; the
// explorer's others come when the clock is right.
func TestWaitingFillsNoDisk(t *testing.T) {
	inWorld(t, func(w *world) { w.limits.Postponed = 5 }, func(t *testing.T, w *world, _ *incarnation) {
		w.clock.set(-30*365*day, false, false)
		var ids []string
		for range 12 {
			ids = append(ids, w.explorer.push(w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, func(r *workload.Reservation) {
				r.Created, r.Duration = time.Now(), 300*day
			})))
		}
		time.Sleep(time.Hour)
		if recs, err := w.records.List(); err != nil || len(recs) != 5 {
			t.Fatalf("%d records, must be 5: %v", len(recs), err)
		}
		w.clock.set(0, true, true)
		for _, id := range ids {
			w.answered(id, workload.StateOK)
		}
	})
}

// Data that two JSON readers may read differently can be signed in version 1 only, which
// signs the bytes as they came. It is answered and refused.
func TestAmbiguousDataIsAnsweredAndRefused(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)
	inWorld(t, func(w *world) { w.acceptV1 = true }, func(t *testing.T, w *world, _ *incarnation) {
		for name, tt := range map[string]struct{ data, want string }{
			"an integer beyond 2^53": {`{"size":9007199254740993,"type":"SSD"}`, "size"},
			"the same in tenths":     {`{"size":9.007199254740993e15,"type":"SSD"}`, "size"},
			"a name twice":           {`{"size":1,"size":2,"type":"SSD"}`, "size"},
			"deep nesting":           {`{"size":1,"type":"SSD","x":` + deep + `}`, "deeper than 32"},
		} {
			v1 := func(r *workload.Reservation) { r.Version = workload.V1 }
			id := w.explorer.push(w.reserve(workload.TypeVolume, tt.data, v1))
			if r := w.answered(id, workload.StateError); !strings.Contains(r.Error, tt.want) {
				t.Errorf("%s: the user is told %q, want it to name %q", name, r.Error, tt.want)
			}
			two := w.reserve(workload.TypeVolume, `{"size":1,"type":"SSD"}`, nil)
			two.Data = json.RawMessage(tt.data)
			if err := two.Sign(w.user.Private()); err == nil {
				t.Errorf("%s: it could be signed in version 2", name)
			}
		}
		if names := w.storage.names(); len(names) != 0 {
			t.Fatalf("on the node is %v", names)
		}
	})
}

// A deletion that comes under a replay's ID signs the hash: it ends the replayed
// reservation, also while the answer to the replay isn't delivered.
func TestADeletionUnderAReplaysIDEndsTheOriginal(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world, _ *incarnation) {
		id := w.volume(nil)
		w.answered(id, workload.StateOK)
		w.explorer.setDeaf(true)
		w.explorer.mu.Lock()
		genuine := w.explorer.docs[id]
		w.explorer.mu.Unlock()
		replay := w.explorer.pushAs("5000-1", genuine)
		w.until("the replay is refused", func() bool {
			rec, err := w.records.Record(replay)
			return err == nil && rec.Phase == store.Dismissed
		})
		w.remove(replay)
		w.until("the poll has gone on", func() bool {
			w.explorer.mu.Lock()
			defer w.explorer.mu.Unlock()
			return w.cursor.Cursor().Change == w.explorer.head
		})
		w.until("the original has ended", func() bool { return w.phase(id) == store.Ended })
		if w.phase(replay) != store.Dismissed || len(w.storage.names()) != 0 {
			t.Fatalf("the replay is %s, on the node is %v", w.phase(replay), w.storage.names())
		}
		w.explorer.setDeaf(false)
		w.answered(id, workload.StateDeleted)
		if r := w.answered(replay, workload.StateError); !strings.Contains(r.Error, id) {
			t.Fatalf("the replay is answered %q", r.Error)
		}
	})
}

// Keys cost nothing: a sender that makes them without end, and has each refused, is
// answered each time, and fills no disk.
func TestRefusalsWithoutEndFillNoDisk(t *testing.T) {
	inWorld(t, func(w *world) { w.limits.Refused = 20 }, func(t *testing.T, w *world, n *incarnation) {
		var ids []string
		for range 50 {
			w.user = newKey(t)
			ids = append(ids, w.explorer.push(w.reserve(workload.TypeZDB, `{}`, nil)))
		}
		for _, id := range ids {
			if r := w.answered(id, workload.StateError); !strings.Contains(r.Error, "zdb") {
				t.Fatalf("%s is answered %q", id, r.Error)
			}
		}
		w.until("those beyond the limit are forgotten", func() bool {
			recs, err := w.records.List()
			return err == nil && len(recs) == 20
		})
		w.restart(n)
		w.explorer.setDeaf(true)
		for i := range 1200 {
			w.user = newKey(t)
			w.explorer.pushAs(fmt.Sprintf("%d-1", 5000+i), w.reserve(workload.TypeZDB, `{}`, nil))
		}
		last := w.volume(nil)
		w.until("all of it was handled", func() bool {
			rec, err := w.records.Record(last)
			return err == nil && rec.Phase == store.Deployed
		})
		recs, err := w.records.List()
		if err != nil || len(recs) != 20+1000+1 {
			t.Fatalf("%d records, must be 20, 1000 answers that wait, and a volume: %v", len(recs), err)
		}
	})
}
