package registration_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/registration"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// desk is a fake explorer that takes registrations.
type desk struct {
	mu         sync.Mutex
	down       error
	nodes      []explorer.Node
	heartbeats []time.Time
	tries      []time.Time
}

func (d *desk) RegisterNode(_ context.Context, n explorer.Node) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tries = append(d.tries, time.Now())
	if d.down != nil {
		return d.down
	}
	d.nodes = append(d.nodes, n)
	return nil
}

func (d *desk) Heartbeat(_ context.Context, _ string, _ explorer.Heartbeat) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down != nil {
		return d.down
	}
	if len(d.nodes) == 0 {
		return node.Errorf(node.NotExist, "no such node")
	}
	d.heartbeats = append(d.heartbeats, time.Now())
	return nil
}

func (d *desk) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// world is one node in a synctest bubble, with a heartbeat every 10 s.
type world struct {
	desk  desk
	mu    sync.Mutex
	facts registration.Facts
	calls []error
	r     *registration.Registration
}

func (w *world) start(t *testing.T) {
	t.Helper()
	w.facts.Node.NodeID = "me"
	r, err := registration.New(registration.Config{
		Explorer: &w.desk, Every: 10 * time.Second, Log: zerolog.Nop(),
		Facts: func(context.Context) (registration.Facts, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.facts, nil
		},
		Contact: func(err error) { w.calls = append(w.calls, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.r = r
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) { f(t, &world{}) })
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestRegistersOnceThenBeats(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		free := explorer.Resources{SRU: 3}
		w.facts.Heartbeat = explorer.Heartbeat{Uptime: 7, FreeResources: &free}
		w.start(t)
		pass(time.Hour)
		if n := len(w.desk.nodes); n != 1 || w.desk.nodes[0].Uptime != 7 || w.desk.nodes[0].FreeResources.SRU != 3 {
			t.Fatalf("registered %d times: %+v", n, w.desk.nodes)
		}
		if n := len(w.desk.heartbeats); n < 300 || n > 450 {
			t.Fatalf("%d heartbeats in an hour", n)
		}
		different := map[time.Duration]bool{}
		for i := 1; i < len(w.desk.heartbeats); i++ {
			d := w.desk.heartbeats[i].Sub(w.desk.heartbeats[i-1])
			if d < 8*time.Second || d > 12*time.Second {
				t.Fatalf("%s between two heartbeats, must be 8 to 12 s", d)
			}
			different[d] = true
		}
		if len(different) < 100 {
			t.Fatalf("only %d different waits: no jitter", len(different))
		}
	})
}

func TestKeepsTryingWhileTheExplorerIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.desk.down = errors.New("connection refused")
		w.start(t)
		pass(10 * time.Minute)
		w.desk.set(func() {
			if n := len(w.desk.tries); n < 50 || n > 90 {
				t.Fatalf("%d tries in 10 minutes", n)
			}
			if d := w.desk.tries[1].Sub(w.desk.tries[0]); d > 2*time.Second {
				t.Fatalf("the second try came after %s", d)
			}
			w.desk.down = nil
		})
		pass(15 * time.Second)
		if len(w.desk.nodes) != 1 {
			t.Fatal("it didn't register when the explorer came back")
		}
	})
}

func TestRegistersAgainWhenForgottenOrChanged(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(t)
		pass(time.Minute)
		w.desk.set(func() { w.desk.nodes = nil })
		pass(15 * time.Second)
		w.desk.set(func() {
			if len(w.desk.nodes) != 1 {
				t.Fatal("forgotten, and not registered again")
			}
		})
		w.mu.Lock()
		w.facts.Node.Address = "192.0.2.7"
		w.mu.Unlock()
		pass(15 * time.Second)
		if n := len(w.desk.nodes); n != 2 || w.desk.nodes[1].Address != "192.0.2.7" {
			t.Fatalf("%d registrations after a change", n)
		}
		if len(w.calls) == 0 {
			t.Fatal("nobody heard of the calls")
		}
	})
}

func TestATipIsFollowedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(t)
		<-w.r.Tried()
		w.desk.set(func() { w.desk.nodes = nil })
		w.r.Forgotten()
		w.r.Forgotten()
		pass(time.Millisecond)
		w.desk.set(func() {
			if len(w.desk.nodes) == 0 {
				t.Fatal("it was told that it is forgotten, and waited")
			}
		})
	})
}

func TestTriedEvenIfTheExplorerIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.desk.down = errors.New("connection refused")
		w.start(t)
		pass(time.Millisecond)
		select {
		case <-w.r.Tried():
		default:
			t.Fatal("nobody was told of the first attempt")
		}
	})
}

func TestConfigNamesMissingFields(t *testing.T) {
	if _, err := registration.New(registration.Config{}); err == nil {
		t.Fatal("an empty config was accepted")
	}
	c := registration.Config{Explorer: &desk{}, Facts: func(context.Context) (registration.Facts, error) { return registration.Facts{}, nil }, Contact: func(error) {}}
	if _, err := registration.New(c); err == nil || err.Error() != "cannot register: Every is 0s, must be above 0" {
		t.Fatalf("got %v", err)
	}
}

// Run may be called again after a panic: Tried is closed by then, and everything else goes on.
func TestGoesOnAfterPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk, panics := &desk{}, 3
		r, err := registration.New(registration.Config{
			Explorer: desk, Every: 10 * time.Second, Log: zerolog.Nop(), Contact: func(error) {},
			Facts: func(context.Context) (registration.Facts, error) {
				if panics--; panics >= 0 {
					panic("no facts")
				}
				return registration.Facts{Node: explorer.Node{NodeID: "me"}}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		parts := supervise.New(zerolog.Nop())
		parts.Start(supervise.Part{Name: "registration", Run: r.Run, Again: true})
		<-r.Tried()
		pass(time.Minute)
		if len(desk.nodes) != 1 || len(desk.heartbeats) == 0 {
			t.Errorf("registered %d times, %d heartbeats", len(desk.nodes), len(desk.heartbeats))
		}
		if err := parts.Stop(); err != nil {
			t.Error(err)
		}
	})
}
