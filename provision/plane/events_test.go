package plane

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/work"
)

const (
	keyBytes = 32
	userID   = "5f4NabcdefghUSERxyz"
)

func workloadsOnly() []meta.ResourceWithRD { return []meta.ResourceWithRD{&work.Workload{}} }

func nodeNetwork(label string, port int64) node.NetworkInfo {
	return node.NetworkInfo{Label: label, ListenPort: uint16(port)}
}

// events are the events of a state, the oldest first.
func events(t *testing.T, s state.State) []work.EventSpec {
	t.Helper()
	all, err := safe.StateListAll[*work.Event](context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	var out []work.EventSpec
	for e := range all.All() {
		out = append(out, *e.TypedSpec())
	}
	slices.SortFunc(out, func(a, b work.EventSpec) int { return a.Last.Compare(b.Last) })
	return out
}

func newEngine() *Engine {
	return NewEngine(EngineConfig{Orders: refusing{}, ClockChanged: func() {}, Log: zerolog.Nop()})
}

// TestHistoryIsSealed: the file outlives the node, repetitions are counted over restarts, and nobody who reads the
// file learns whose workloads were there.
func TestHistoryIsSealed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	at := time.Now()
	life := func() (*Plane, func()) {
		p := open(t, Config{History: path, Key: bytes.Repeat([]byte{7}, keyBytes)})
		engine := newEngine()
		p.Add(engine, Past{Log: zerolog.Nop()})
		stop := run(t, p)
		at = at.Add(time.Second)
		engine.Event(work.EventSpec{Kind: work.Warning, Reason: work.ReasonDrifted, Object: "volume/1-1", User: userID, Message: "secret words " + userID, Last: at})
		return p, stop
	}
	p, stop := life()
	until(t, "the event is there", func() bool { return len(events(t, p.State())) == 1 })
	stop()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{userID, "secret words"} {
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("the file shows %q", secret)
		}
	}
	p, _ = life()
	until(t, "its repetition is counted", func() bool {
		all := events(t, p.State())
		return len(all) == 1 && all[0].Count == 2 && all[0].Last.After(all[0].First) && all[0].User == userID
	})
}

// TestDamagedHistory: a file that is torn, zeroed, of another key or no file of the library's is set aside; a
// new history begins.
func TestDamagedHistory(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"torn":              func(path string) error { return os.Truncate(path, 5000) },
		"cut to its head":   func(path string) error { return os.Truncate(path, 8<<10) },
		"cut in its middle": func(path string) error { return os.Truncate(path, 12<<10) },
		"empty":             func(path string) error { return os.Truncate(path, 0) },
		"zeroed":            func(path string) error { return os.WriteFile(path, make([]byte, 32<<10), 0o600) },
		"text":              func(path string) error { return os.WriteFile(path, []byte("a letter"), 0o600) },
		"zeroed but for its head": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil {
				return err
			}
			const head = 8 << 10 // the two pages that tell where the rest is
			_, err = f.WriteAt(make([]byte, info.Size()-head), head)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history.db")
			cfg := Config{History: path, Key: make([]byte, keyBytes)}
			first := open(t, cfg)
			for i := range 50 {
				e := work.NewEvent(fmt.Sprint(i), work.EventSpec{Reason: work.ReasonCreated, Object: "volume/1-1", User: userID, Last: time.Now()})
				if err := first.State().Create(t.Context(), e, state.WithCreateOwner("Engine")); err != nil {
					t.Fatal(err)
				}
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			second := open(t, cfg)
			engine := newEngine()
			second.Add(engine, Past{Lost: second.Lost(), Log: zerolog.Nop()})
			run(t, second)
			until(t, "the loss is an event, unless the file is as new", func() bool {
				lost := slices.ContainsFunc(events(t, second.State()), func(e work.EventSpec) bool { return e.Reason == work.ReasonHistoryLost })
				return lost || name == "empty"
			})
			if _, err := os.Stat(path + ".damaged"); (err != nil) != (name == "empty") {
				t.Errorf("the damaged file: %v", err)
			}
		})
	}
	t.Run("another key", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "history.db")
		first := open(t, Config{History: path, Key: make([]byte, keyBytes)})
		if err := first.State().Create(t.Context(), work.NewEvent("1", work.EventSpec{Object: "volume/1-1"})); err != nil {
			t.Fatal(err)
		}
		_ = first.Close()
		second := open(t, Config{History: path, Key: bytes.Repeat([]byte{1}, keyBytes)})
		defer second.Close()
		if got := events(t, second.State()); len(got) != 0 {
			t.Fatalf("read %+v", got)
		}
	})
}

// TestRecorderNeverWaits: more events at a time than it holds are dropped and counted.
func TestRecorderNeverWaits(t *testing.T) {
	engine := newEngine()
	for i := range mostPending + 77 {
		engine.Event(work.EventSpec{Reason: work.ReasonCreated, Object: fmt.Sprint("volume/", i), Last: time.Now()})
	}
	if got := engine.Dropped(); got != 77 {
		t.Fatalf("%d events were dropped, want 77", got)
	}
}

// TestSurplus: whatever the events, those that stay are within the bounds. The node and all strangers keep their shares, nobody who has a workload here
// loses one to a stranger beyond the strangers' share, nor one to a user with fewer; age and future count while the clock is trusted.
func TestSurplus(t *testing.T) {
	now := time.Now()
	rapid.Check(t, func(t *rapid.T) {
		chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "ages"), 1))
		trusted := rapid.Bool().Draw(t, "trusted")
		var all []*work.Event
		had, here, kind := map[string]int{}, map[string]bool{}, map[string]string{}
		add := func(user, of string, n int) {
			kind[user] = of
			for i := range n {
				age := time.Duration(chance.Int64N(int64(50*24*time.Hour))) - 10*24*time.Hour
				all = append(all, work.NewEvent(fmt.Sprintf("%s-%d", user, i), work.EventSpec{User: user, Last: now.Add(-age)}))
				if !trusted || age <= eventsFor {
					had[user]++
				}
			}
		}
		add("", "node", rapid.IntRange(0, 1500).Draw(t, "of the node"))
		for u, n := range rapid.SliceOfN(rapid.IntRange(0, 1500), 0, 4).Draw(t, "of users here") {
			here[fmt.Sprint("here", u)] = true
			add(fmt.Sprint("here", u), "here", n)
		}
		for u := range rapid.IntRange(0, 3000).Draw(t, "strangers") {
			add(fmt.Sprint("stranger", u), "stranger", 1)
		}
		gone := map[string]bool{}
		for _, e := range surplus(slices.Clone(all), here, now, trusted, mostEvents) {
			gone[e.Metadata().ID()] = true
		}
		left, sums, sum, newest := map[string]int{}, map[string]int{}, 0, map[string]time.Time{}
		for _, e := range all {
			user := e.TypedSpec().User
			if gone[e.Metadata().ID()] {
				if at := e.TypedSpec().Last; at.After(newest[user]) && !(trusted && at.Sub(now) > ahead) {
					newest[user] = at
				}
				continue
			}
			if trusted && now.Sub(e.TypedSpec().Last) > eventsFor {
				t.Fatalf("an event of %s stays", e.TypedSpec().Last)
			}
			left[user]++
			sums[kind[user]]++
			sum++
		}
		total, strangers := 0, 0
		for user, n := range had {
			if total += n; kind[user] == "stranger" {
				strangers += n
			}
		}
		if sum != min(total, mostEvents) {
			t.Fatalf("%d are left of %d", sum, total)
		}
		for _, e := range all {
			if at := e.TypedSpec().Last; !gone[e.Metadata().ID()] && at.Before(newest[e.TypedSpec().User]) {
				t.Fatalf("one of %s stays, a newer one of the same user goes", at)
			}
		}
		if left[""] < min(had[""], share) || sums["stranger"] < min(strangers, share) {
			t.Fatalf("the node has %d of %d, strangers have %d of %d", left[""], had[""], sums["stranger"], strangers)
		}
		most := 0
		for user := range here {
			most = max(most, left[user])
		}
		for user := range here {
			if lost := had[user] - left[user]; lost > 0 && (sums["stranger"] > share || left[user] < most-1) {
				t.Fatalf("%s has lost %d of %d, the most have %d, strangers %d", user, lost, had[user], most, sums["stranger"])
			}
		}
	})
}

// TestAFloodOfOneUserDropsItsOwn: the events of others that wait aren't dropped.
func TestAFloodOfOneUserDropsItsOwn(t *testing.T) {
	engine := newEngine()
	for i := range 10 {
		engine.Event(work.EventSpec{Reason: work.ReasonLoadFailed, Object: fmt.Sprint("module/", i), Last: time.Now()})
	}
	for i := range 3 * mostPending {
		engine.Event(work.EventSpec{Reason: work.ReasonDrifted, Object: fmt.Sprint("volume/", i), User: "flood", Last: time.Now()})
	}
	engine.Event(work.EventSpec{Reason: work.ReasonCreated, Object: "volume/1-1", User: "ann", Last: time.Now()})
	of := map[string]int{}
	for {
		s, some := engine.events.next()
		if !some {
			break
		}
		of[s.User]++
	}
	if of[""] != 10 || of["ann"] != 1 || of["flood"] != mostPending-11 {
		t.Errorf("%v wait", of)
	}
	if got := engine.Dropped(); got != 2*mostPending+11 {
		t.Errorf("%d are dropped", got)
	}
}

// TestRememberedKindsAreBounded: of many kinds of events within a moment, the newest are remembered.
func TestRememberedKindsAreBounded(t *testing.T) {
	c := newRecorder(zerolog.Nop())
	c.newest = map[string]last{}
	began := time.Now()
	for i := range 5 * mostEvents {
		c.remember(fmt.Sprint(i), last{at: began.Add(time.Duration(i))})
		if _, known := c.newest[fmt.Sprint(i)]; !known || len(c.newest) > 2*mostEvents || i >= mostEvents && len(c.newest) < mostEvents {
			t.Fatalf("after %d kinds it remembers %d, the newest: %v", i+1, len(c.newest), known)
		}
	}
}

// However the beginnings and the ends of what happens to two objects follow each other, and whenever the process ends: an end is written if its object's
// newest event is a beginning.
func TestAnEndIsWrittenAfterItsBeginningOnly(t *testing.T) {
	for round := range uint64(8) {
		chance := rand.New(rand.NewPCG(round, 0))
		w := newHistoryWorld(t)
		newest, want := map[string]string{}, map[string]int{}
		var done []string
		for range 12 {
			what, object := []string{"begin", "end", "end", "restart"}[chance.IntN(4)], []string{"mirror/a", "mirror/b"}[chance.IntN(2)]
			done = append(done, what+" "+object)
			w.at = w.at.Add(time.Hour) // no repetition
			switch what {
			case "begin":
				w.begin(object)
				newest[object] = work.ReasonMirrorBehind
				want[object+" "+work.ReasonMirrorBehind]++
			case "end":
				w.end(object)
				if newest[object] == work.ReasonMirrorBehind {
					newest[object] = work.ReasonMirrorSynced
					want[object+" "+work.ReasonMirrorSynced]++
				}
			case "restart":
				w.restart()
			}
			if got := w.written(); !maps.Equal(got, want) {
				t.Fatalf("round %d, after %v there are %v, want %v", round, done, got, want)
			}
		}
	}
}

// A beginning was dated by a clock that was ahead: its end is told once, however often the process starts again.
func TestAnEndIsWrittenOnceAfterAClockIsSetBack(t *testing.T) {
	w := newHistoryWorld(t)
	w.at = w.at.Add(5 * time.Hour)
	w.begin("mirror/a")
	w.written()
	w.at = w.at.Add(-5 * time.Hour)
	for range 3 {
		w.restart()
		w.at = w.at.Add(20 * time.Minute)
		w.end("mirror/a")
		if got, want := w.written(), map[string]int{"mirror/a " + work.ReasonMirrorBehind: 1, "mirror/a " + work.ReasonMirrorSynced: 1}; !maps.Equal(got, want) {
			t.Fatalf("there are %v, want %v", got, want)
		}
	}
}

// historyWorld is a history that outlives its processes.
type historyWorld struct {
	t      *testing.T
	path   string
	at     time.Time
	marks  int
	plane  *Plane
	engine *Engine
	stop   func()
}

func newHistoryWorld(t *testing.T) *historyWorld {
	t.Helper()
	w := &historyWorld{t: t, path: filepath.Join(t.TempDir(), "history.db"), at: time.Now()}
	w.start()
	return w
}

func (w *historyWorld) start() {
	w.plane, w.engine = open(w.t, Config{History: w.path, Key: bytes.Repeat([]byte{7}, keyBytes)}), newEngine()
	w.plane.Add(w.engine)
	w.stop = run(w.t, w.plane)
}

func (w *historyWorld) restart() {
	w.stop()
	w.start()
}

func (w *historyWorld) begin(object string) {
	w.engine.Event(work.EventSpec{Kind: work.Warning, Reason: work.ReasonMirrorBehind, Object: object, Last: w.at})
}

func (w *historyWorld) end(object string) {
	w.engine.EventAfter(work.ReasonMirrorBehind, work.EventSpec{Kind: work.Normal, Reason: work.ReasonMirrorSynced, Object: object, Last: w.at})
}

// written are how many events each object has of each reason, once those that were added before are written: they are in turn.
func (w *historyWorld) written() map[string]int {
	w.t.Helper()
	w.marks++
	mark := fmt.Sprint("mark/", w.marks)
	w.engine.Event(work.EventSpec{Kind: work.Normal, Reason: work.ReasonCreated, Object: mark, Last: w.at})
	until(w.t, "the events are written", func() bool {
		return slices.ContainsFunc(events(w.t, w.plane.State()), func(s work.EventSpec) bool { return s.Object == mark })
	})
	out := map[string]int{}
	for _, s := range events(w.t, w.plane.State()) {
		if s.Reason != work.ReasonCreated {
			out[s.Object+" "+s.Reason]++
		}
	}
	return out
}
