package source_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
)

// module is a module to look at; it notes when.
type module struct {
	mu    sync.Mutex
	seen  map[provisioner.Label]provisioner.Seen
	err   error
	hang  bool
	looks []time.Time
}

func (m *module) look(ctx context.Context) (map[provisioner.Label]provisioner.Seen, error) {
	m.mu.Lock()
	m.looks = append(m.looks, time.Now())
	seen, err, hang := m.seen, m.err, m.hang
	m.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return seen, err
}

func (m *module) set(seen map[provisioner.Label]provisioner.Seen, err error, hang bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen, m.err, m.hang = seen, err, hang
}

func (m *module) times() []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]time.Time(nil), m.looks...)
}

// anythingDiffers reports whether any workload has a drift text.
func anythingDiffers(_ workload.Type, seen map[provisioner.Label]provisioner.Seen, _ []string) bool {
	for _, what := range seen {
		if what.Drift != "" {
			return true
		}
	}
	return false
}

// syncedLog is a source's log, safe to read while it runs.
type syncedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *syncedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *syncedLog) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// drifting runs a source over modules, by type, until test returns.
func drifting(t *testing.T, looks map[workload.Type]source.Look, test func(t *testing.T, items <-chan source.Item, log *syncedLog)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := &syncedLog{}
		d, err := source.NewDrift(source.DriftConfig{
			Looks: looks, Differs: anythingDiffers, Every: 10 * time.Second, Deadline: 10 * time.Second, Log: zerolog.New(log),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		items := d.Items(ctx)
		test(t, items, log)
		cancel()
		stopped := time.Now()
		for range items { // items still on their way
		}
		if took := time.Since(stopped); took > time.Second {
			t.Errorf("the source ends %s after its context", took)
		}
	})
}

func TestDriftYieldsOnlyDifferences(t *testing.T) {
	fine, moved := &module{seen: map[provisioner.Label]provisioner.Seen{{ID: "1-1"}: {}}}, &module{seen: map[provisioner.Label]provisioner.Seen{{ID: "2-1"}: {}}}
	drifting(t, map[workload.Type]source.Look{workload.TypeVolume: fine.look, workload.TypeNetwork: moved.look},
		func(t *testing.T, items <-chan source.Item, _ *syncedLog) {
			select {
			case item := <-items:
				t.Fatalf("yields %+v although nothing differs", item)
			case <-time.After(10 * time.Minute):
			}
			moved.set(map[provisioner.Label]provisioner.Seen{{ID: "2-1"}: {Drift: "bridge is gone"}}, nil, false)
			start := time.Now()
			item := <-items
			if item.Kind != source.Drifted || item.Type != workload.TypeNetwork || time.Since(start) > 12*time.Second {
				t.Fatalf("yields %+v after %s", item, time.Since(start))
			}
			// The type isn't looked at again before the engine is done with it.
			looks := len(moved.times())
			time.Sleep(10 * time.Minute)
			if now := len(moved.times()); now != looks {
				t.Fatalf("%d more looks while the engine is at it", now-looks)
			}
			moved.set(map[provisioner.Label]provisioner.Seen{{ID: "2-1"}: {}}, nil, false)
			item.Finish(nil)
			time.Sleep(time.Minute)
			if now := len(moved.times()); now < looks+4 || now > looks+8 {
				t.Fatalf("%d looks in the minute after", now-looks)
			}
		})
}

func TestDriftOfOneTypeWaitsForNoOther(t *testing.T) {
	hanging, failing, moved := &module{hang: true}, &module{err: errors.New("no such socket")}, &module{seen: map[provisioner.Label]provisioner.Seen{{ID: "2-1"}: {Drift: "gone"}}}
	drifting(t, map[workload.Type]source.Look{workload.TypeVolume: hanging.look, workload.TypeZDB: failing.look, workload.TypeNetwork: moved.look},
		func(t *testing.T, items <-chan source.Item, log *syncedLog) {
			start := time.Now()
			for range 20 {
				item := <-items
				if item.Type != workload.TypeNetwork {
					t.Fatalf("yields %+v", item)
				}
				item.Finish(nil)
			}
			if took := time.Since(start); took > 20*12*time.Second {
				t.Errorf("20 looks beside modules that hang or fail took %s", took)
			}
			time.Sleep(time.Hour)
			for name, m := range map[string]*module{"hangs": hanging, "fails": failing} {
				if n := len(m.times()); n < 100 || n > 400 {
					t.Errorf("the module that %s was asked %d times in an hour", name, n)
				}
			}
			if n := log.count("cannot compare"); n != 2 {
				t.Errorf("said %d times that a module doesn't answer, want once each", n)
			}
			failing.set(map[provisioner.Label]provisioner.Seen{{ID: "3-1"}: {Drift: "gone"}}, nil, false)
			back := time.Now()
			for item := range items {
				if item.Finish(nil); item.Type == workload.TypeZDB {
					break
				}
			}
			if took := time.Since(back); took > 25*time.Second || log.count("compared again") != 1 {
				t.Errorf("a module that is back is seen after %s, said %d times", took, log.count("compared again"))
			}
		})
}

// A look that ignores its deadline is one goroutine, not one a look.
func TestDriftAsksOnceWhileALookIsLeftBehind(t *testing.T) {
	var release chan struct{} // made inside the bubble of the test's clock
	var mu sync.Mutex
	asked := 0
	stubborn := func(context.Context) (map[provisioner.Label]provisioner.Seen, error) {
		mu.Lock()
		asked++
		until := release
		mu.Unlock()
		<-until
		return map[provisioner.Label]provisioner.Seen{{ID: "1-1"}: {Drift: "from long ago"}}, nil
	}
	drifting(t, map[workload.Type]source.Look{workload.TypeVolume: stubborn}, func(t *testing.T, items <-chan source.Item, _ *syncedLog) {
		mu.Lock()
		release = make(chan struct{})
		mu.Unlock()
		time.Sleep(time.Hour)
		mu.Lock()
		if asked != 1 {
			t.Errorf("asked %d times while the first hasn't come back", asked)
		}
		mu.Unlock()
		close(release)
		start := time.Now()
		item := <-items
		mu.Lock()
		if asked < 2 || time.Since(start) > time.Minute {
			t.Errorf("yields what was seen long ago: asked %d times, after %s", asked, time.Since(start))
		}
		mu.Unlock()
		item.Finish(nil)
	})
}

// A type that the engine can't handle is yielded more seldom.
func TestDriftBacksOffWhenTheEngineFails(t *testing.T) {
	m := &module{seen: map[provisioner.Label]provisioner.Seen{{ID: "1-1"}: {Drift: "gone"}}}
	drifting(t, map[workload.Type]source.Look{workload.TypeVolume: m.look}, func(t *testing.T, items <-chan source.Item, _ *syncedLog) {
		start := time.Now()
		for range 30 {
			(<-items).Finish(errors.New("cannot list the records"))
		}
		if each := time.Since(start) / 30; each < 10*time.Second || each > 15*time.Second {
			t.Errorf("%s between two", each)
		}
	})
}

func TestDriftNeedsItsParts(t *testing.T) {
	good := source.DriftConfig{Differs: anythingDiffers, Every: time.Second, Deadline: time.Second}
	for name, spoil := range map[string]func(c *source.DriftConfig){
		"Differs":  func(c *source.DriftConfig) { c.Differs = nil },
		"Every":    func(c *source.DriftConfig) { c.Every = 0 },
		"Deadline": func(c *source.DriftConfig) { c.Deadline = -1 },
	} {
		c := good
		spoil(&c)
		if _, err := source.NewDrift(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	d, err := source.NewDrift(good)
	if err != nil {
		t.Fatal(err)
	}
	if _, open := <-d.Items(t.Context()); open {
		t.Error("a source that watches nothing yields something")
	}
}

// A look that was left behind costs no further interval once it is back: the module is asked anew at once.
func TestDriftAsksAnewOnceALateLookIsBack(t *testing.T) {
	var release chan struct{} // made inside the bubble of the test's clock
	var mu sync.Mutex
	asked := 0
	late := func(context.Context) (map[provisioner.Label]provisioner.Seen, error) {
		mu.Lock()
		asked++
		first, until := asked == 1, release
		mu.Unlock()
		if first {
			<-until
		}
		return map[provisioner.Label]provisioner.Seen{{ID: "1-1"}: {Drift: "gone"}}, nil
	}
	for range 20 { // the intervals are by chance
		drifting(t, map[workload.Type]source.Look{workload.TypeVolume: late}, func(t *testing.T, items <-chan source.Item, log *syncedLog) {
			mu.Lock()
			release, asked = make(chan struct{}), 0
			mu.Unlock()
			for log.count("cannot compare") == 0 {
				time.Sleep(time.Millisecond)
			}
			close(release) // an interval before the module is asked again
			back := time.Now()
			item := <-items
			if took := time.Since(back); took > 13*time.Second {
				t.Errorf("a module that is back is seen after %s", took)
			}
			item.Finish(nil)
		})
	}
}
