package plane

import (
	"bytes"
	"context"
	"fmt"
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
		"torn":   func(path string) error { return os.Truncate(path, 5000) },
		"empty":  func(path string) error { return os.Truncate(path, 0) },
		"zeroed": func(path string) error { return os.WriteFile(path, make([]byte, 32<<10), 0o600) },
		"text":   func(path string) error { return os.WriteFile(path, []byte("a letter"), 0o600) },
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

// TestSurplus: whatever the events, those that stay are within the bounds, the newest of each user stay, and no user
// with few events loses one to a user with many.
func TestSurplus(t *testing.T) {
	now := time.Now()
	rapid.Check(t, func(t *rapid.T) {
		var all []*work.Event
		of := map[string]int{}
		chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "ages"), 1))
		for u, n := range rapid.SliceOfN(rapid.IntRange(0, 1500), 1, 5).Draw(t, "events of users") {
			user := fmt.Sprint("user", u)
			for i := range n {
				age := time.Duration(chance.Int64N(int64(40 * 24 * time.Hour)))
				e := work.NewEvent(fmt.Sprintf("%s-%d", user, i), work.EventSpec{User: user, Last: now.Add(-age)})
				all = append(all, e)
				if age <= eventsFor {
					of[user]++
				}
			}
		}
		gone := map[string]bool{}
		for _, e := range surplus(slices.Clone(all), now) {
			gone[e.Metadata().ID()] = true
		}
		left := map[string]int{}
		sum := 0
		for _, e := range all {
			if gone[e.Metadata().ID()] {
				continue
			}
			if now.Sub(e.TypedSpec().Last) > eventsFor {
				t.Fatalf("an event of %s stays", e.TypedSpec().Last)
			}
			left[e.TypedSpec().User]++
			sum++
		}
		most := 0
		for _, n := range left {
			most = max(most, n)
		}
		for user, had := range of {
			if lost := had - left[user]; lost > 0 && (sum != mostEvents || left[user] < most-1) {
				t.Fatalf("%s has lost %d of %d, the most have %d, %d are left in all", user, lost, had, most, sum)
			}
		}
	})
}
