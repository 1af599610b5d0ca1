package source_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	hubs "github.com/croft-edge/croft/pkg/changes"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
)

// teller is a module's stream of changes, which a test can disturb.
type teller struct {
	hub *hubs.Hub

	mu sync.Mutex
	// mute loses all values, lose the next ones; doubled sends each twice; away fails all
	// subscriptions.
	mute, doubled, away bool
	lose                int
	// end ends the present streams.
	end []context.CancelFunc
	// greets has each new stream begin with the last value of another one, as a bus does.
	greets bool
	last   node.Change
}

func newTeller() *teller { return &teller{hub: hubs.New()} }

func (m *teller) Changes(ctx context.Context) (<-chan node.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, errors.New("no such module")
	}
	ctx, cancel := context.WithCancel(ctx)
	m.end = append(m.end, cancel)
	in, out := m.hub.Changes(ctx), make(chan node.Change)
	greeting := m.last
	go func() {
		defer close(out)
		defer cancel()
		if greeting.Number > 0 {
			select {
			case out <- greeting:
			case <-ctx.Done():
			}
		}
		for c := range in {
			m.heard(c)
			for range m.copies() {
				select {
				case out <- c:
				case <-ctx.Done():
				}
			}
		}
	}()
	return out, nil
}

// heard notes the last value, for later streams.
func (m *teller) heard(c node.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.greets && !m.mute {
		m.last = c
	}
}

// copies is how often the next value arrives.
func (m *teller) copies() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.lose > 0:
		m.lose--
		return 0
	case m.mute:
		return 0
	case m.doubled:
		return 2
	}
	return 1
}

func (m *teller) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// restart ends the stream, as a module's restart does.
func (m *teller) restart() {
	m.set(func() {
		for _, end := range m.end {
			end()
		}
		m.end = nil
	})
}

// homes are a module's workloads of one type: what is gone of them, and what was looked at.
type homes struct {
	*teller
	mu sync.Mutex
	// all are the workloads, gone those that are missing, since when.
	all  []string
	gone map[string]time.Time
	err  error
	// looks are the successful looks: nil is one at everything.
	looks [][]string
	at    []time.Time
	asked int
}

func newHomes(all ...string) *homes {
	return &homes{teller: newTeller(), all: all, gone: map[string]time.Time{}}
}

// look is lookAt of everything.
func (h *homes) look(ctx context.Context) (map[provisioner.Label]provisioner.Seen, error) {
	return h.lookAt(ctx, nil)
}

func (h *homes) lookAt(_ context.Context, ids []string) (map[provisioner.Label]provisioner.Seen, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	if h.err != nil {
		return nil, h.err
	}
	h.looks, h.at = append(h.looks, slices.Clone(ids)), append(h.at, time.Now())
	seen := map[provisioner.Label]provisioner.Seen{}
	for _, id := range h.all { // also others than were asked for, as some provisioners do
		if _, gone := h.gone[id]; !gone {
			seen[provisioner.Label{ID: id}] = provisioner.Seen{}
		}
	}
	return seen, nil
}

// missing are those of the IDs, or of all, that a listing lacks.
func (h *homes) missing(seen map[provisioner.Label]provisioner.Seen, ids []string) (out []string) {
	if ids == nil {
		ids = h.all
	}
	for _, id := range ids {
		if _, there := seen[provisioner.Label{ID: id}]; !there {
			out = append(out, id)
		}
	}
	return out
}

func (h *homes) wanted(_ workload.Type, ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(h.all, id) })
}

// takeAway makes a workload disappear, told or not.
func (h *homes) takeAway(id string, told bool) {
	h.mu.Lock()
	if _, gone := h.gone[id]; !gone {
		h.gone[id] = time.Now()
	}
	h.mu.Unlock()
	if told {
		h.hub.Tell(id)
	}
}

func (h *homes) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

// since are the looks from n on, and how many there are.
func (h *homes) since(n int) ([][]string, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.looks[n:]), len(h.looks)
}

func (h *homes) count() int { _, n := h.since(0); return n }

// tries is how often it was asked.
func (h *homes) tries() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

// left is what is gone.
func (h *homes) left() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.gone)
}

const (
	everyLook  = 10 * time.Second
	everything = 22 * time.Second
)

// telling runs a source over homes, whose items an engine handles that brings back what
// is missing, until test returns.
func telling(t *testing.T, h *homes, test func(t *testing.T, items *handled)) {
	t.Helper()
	tellingTo(t, zerolog.Nop(), h, test)
}

func tellingTo(t *testing.T, log zerolog.Logger, h *homes, test func(t *testing.T, items *handled)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d, err := source.NewDrift(source.DriftConfig{
			Looks:  map[workload.Type]source.Look{workload.TypeNetwork: h.look},
			Told:   map[workload.Type]source.Told{workload.TypeNetwork: {Changes: []provisioner.Changes{h.teller}, LookAt: h.lookAt}},
			Wanted: h.wanted,
			Differs: func(_ workload.Type, seen map[provisioner.Label]provisioner.Seen, ids []string) bool {
				return len(h.missing(seen, ids)) > 0
			},
			Every: everyLook, Resync: everything, Deadline: 5 * time.Second, Log: log,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		got := &handled{homes: h}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for item := range d.Items(ctx) {
				got.handle(item)
			}
		}()
		test(t, got)
		cancel()
		<-done
	})
}

// handled is what the engine was handed.
type handled struct {
	*homes
	mu    sync.Mutex
	items []source.Item
	wrong []string
	// slowest is the longest time that a workload was gone.
	slowest time.Duration
}

func (g *handled) handle(item source.Item) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.items = append(g.items, item)
	if item.IDs != nil {
		for l := range item.Seen {
			if !slices.Contains(item.IDs, l.ID) {
				g.wrong = append(g.wrong, fmt.Sprintf("%s is listed beside %v", l.ID, item.IDs))
			}
		}
		for _, id := range item.IDs {
			if !slices.Contains(g.all, id) {
				g.wrong = append(g.wrong, id+" is nobody's")
			}
		}
	}
	for _, id := range g.missing(item.Seen, item.IDs) {
		g.homes.mu.Lock()
		if at, gone := g.gone[id]; gone {
			g.slowest = max(g.slowest, time.Since(at))
		}
		delete(g.gone, id)
		g.homes.mu.Unlock()
	}
	item.Finish(nil)
}

func TestTheFirstValueHasEverythingLookedAt(t *testing.T) {
	h := newHomes("1-1", "2-1")
	telling(t, h, func(t *testing.T, _ *handled) {
		time.Sleep(100 * time.Millisecond)
		if looks, _ := h.since(0); len(looks) != 1 || looks[0] != nil {
			t.Fatalf("at the first value there were the looks %v", looks)
		}
		time.Sleep(time.Hour)
		if n := h.count(); n < 130 || n > 210 {
			t.Errorf("%d looks in an hour of an unbroken stream", n)
		}
	})
}

func TestWhatIsToldIsLookedAtAlone(t *testing.T) {
	h := newHomes("1-1", "2-1", "3-1")
	telling(t, h, func(t *testing.T, got *handled) {
		time.Sleep(2 * time.Second)
		for i := range 20 {
			before := h.count()
			h.takeAway("3-1", false) // nobody tells: it waits for the resync
			h.takeAway("2-1", true)
			time.Sleep(150 * time.Millisecond)
			looks, _ := h.since(before)
			if slices.ContainsFunc(looks, func(ids []string) bool { return ids == nil }) {
				continue // the resync came just now
			}
			if len(looks) != 1 || !slices.Equal(looks[0], []string{"2-1"}) || h.left() != 1 {
				t.Fatalf("%d: looked at %v, %d are still gone", i, looks, h.left())
			}
			time.Sleep(everything * 6 / 5)
			if h.left() != 0 {
				t.Fatalf("%d: what nobody told isn't back after %s", i, everything*6/5)
			}
		}
		if len(got.wrong) > 0 {
			t.Error(got.wrong)
		}
	})
}

func TestUnknownIDsAreNeverLookedAt(t *testing.T) {
	h := newHomes("1-1")
	telling(t, h, func(t *testing.T, got *handled) {
		time.Sleep(2 * time.Second)
		before := h.count()
		for n := range 1000 {
			h.hub.Tell(fmt.Sprintf("%d-9", n+1))
			time.Sleep(5 * time.Millisecond)
		}
		if looks, _ := h.since(before); len(looks) > 1 || len(got.items) != 0 {
			t.Errorf("looked at %v, handed on %v", looks, got.items)
		}
	})
}

func TestDoubledValuesAreHarmless(t *testing.T) {
	h := newHomes("1-1")
	telling(t, h, func(t *testing.T, _ *handled) {
		h.set(func() { h.doubled = true })
		time.Sleep(2 * time.Second)
		before := h.count()
		time.Sleep(time.Hour)
		if n := h.count() - before; n > 210 {
			t.Errorf("%d looks in an hour", n)
		}
		h.takeAway("1-1", true)
		time.Sleep(time.Second)
		if h.left() != 0 {
			t.Error("not back")
		}
	})
}

func TestAGapHasEverythingLookedAt(t *testing.T) {
	h := newHomes("1-1", "2-1")
	telling(t, h, func(t *testing.T, _ *handled) {
		time.Sleep(2 * time.Second)
		h.set(func() { h.lose = 1 })
		h.takeAway("1-1", true) // the value with it is lost
		time.Sleep(node.ChangesEvery + time.Second)
		if h.left() != 0 {
			t.Error("after the next value it isn't back")
		}
		h.takeAway("1-1", false)
		h.hub.Lost()
		time.Sleep(1100 * time.Millisecond)
		if h.left() != 0 {
			t.Error("after an overrun it isn't back")
		}
		h.takeAway("1-1", false)
		h.restart()
		time.Sleep(8 * time.Second) // the third gap in a row
		if h.left() != 0 {
			t.Error("after the stream's restart it isn't back")
		}
	})
}

func TestAFloodCostsABoundedNumberOfLooks(t *testing.T) {
	for name, flood := range map[string]func(h *homes){
		"of one ID":    func(h *homes) { h.hub.Tell("1-1") },
		"of many IDs":  func(h *homes) { h.hub.Tell(h.all...) },
		"of overruns":  func(h *homes) { h.hub.Lost() },
		"of restarts":  func(h *homes) { h.restart() },
		"of too many":  func(h *homes) { h.hub.Tell(tooMany()...) },
		"of both":      func(h *homes) { h.hub.Tell("1-1"); h.hub.Lost() },
		"of lost ones": func(h *homes) { h.set(func() { h.lose = 1 }); h.hub.Tell("1-1") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHomes("1-1", "2-1", "3-1")
			telling(t, h, func(t *testing.T, got *handled) {
				for range 2400 { // two minutes
					flood(h)
					time.Sleep(50 * time.Millisecond)
				}
				if n := h.tries(); n > 100 {
					t.Errorf("%d looks in two minutes", n)
				}
				h.takeAway("1-1", true)
				for range 300 {
					flood(h)
					time.Sleep(50 * time.Millisecond)
				}
				if h.left() != 0 || got.slowest > 13*time.Second {
					t.Errorf("during the flood it isn't back, %s", got.slowest)
				}
			})
		})
	}
}

func tooMany() (out []string) {
	for n := range node.ChangesMost + 1 {
		out = append(out, fmt.Sprintf("%d-9", n+1))
	}
	return out
}

func TestAFailedLookAtToldIDsIsRepeated(t *testing.T) {
	h := newHomes("1-1")
	telling(t, h, func(t *testing.T, _ *handled) {
		time.Sleep(2 * time.Second)
		h.fail(errors.New("cannot look"))
		h.takeAway("1-1", true)
		time.Sleep(time.Minute)
		if n := h.tries(); n > 30 {
			t.Errorf("asked %d times while looks fail", n)
		}
		h.fail(nil)
		time.Sleep(15 * time.Second)
		if h.left() != 0 {
			t.Error("after looks work again it isn't back")
		}
	})
}

func TestDriftConfigWithStreams(t *testing.T) {
	h := newHomes()
	good := source.DriftConfig{
		Looks:   map[workload.Type]source.Look{workload.TypeNetwork: h.look},
		Told:    map[workload.Type]source.Told{workload.TypeNetwork: {Changes: []provisioner.Changes{h.teller}, LookAt: h.lookAt}},
		Wanted:  h.wanted,
		Differs: func(workload.Type, map[provisioner.Label]provisioner.Seen, []string) bool { return false },
		Every:   time.Second, Resync: time.Second, Deadline: time.Second,
	}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(c *source.DriftConfig){
		"Wanted":  func(c *source.DriftConfig) { c.Wanted = nil },
		"Resync":  func(c *source.DriftConfig) { c.Resync = time.Millisecond },
		"no look": func(c *source.DriftConfig) { c.Looks = nil },
		"LookAt": func(c *source.DriftConfig) {
			c.Told = map[workload.Type]source.Told{workload.TypeNetwork: {Changes: []provisioner.Changes{h.teller}}}
		},
	} {
		bad := good
		if spoil(&bad); bad.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
