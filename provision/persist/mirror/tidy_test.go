package mirror

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
)

// removals is a provider that only removes.
type removals struct {
	persist.Provider
	mu      sync.Mutex
	removed int
	// refused is the key that can't be removed, and each is called before each removal.
	refused persist.Key
	each    func()
}

func (r *removals) InstanceStatus(string) persist.Status {
	return persist.Status{InstanceExists: true, Status: true}
}

func (r *removals) DeleteObject(_ context.Context, _ string, _ persist.Kind, key persist.Key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.each != nil {
		r.each()
	}
	if key == r.refused {
		return node.Errorf(node.Refused, "it stays")
	}
	r.removed++
	return nil
}

// tidying is a writer whose place only removes, and its log.
func tidying(c Config) (*writer, *removals, *bytes.Buffer) {
	p, log := &removals{}, &bytes.Buffer{}
	c.Log = zerolog.New(log)
	m := &Mirror{cfg: c, marks: newMarks(), asks: make(chan struct{}, 1)}
	m.cfg.Provider = p
	w := &writer{place: place{p, "here", time.Minute}, mirror: m, cfg: c}
	w.stale.keys = map[persist.Key]leftover{}
	return w, p, log
}

// drops adds objects that nothing needs.
func (w *writer) drops(count int) {
	for i := range count {
		w.stale.keys[persist.Key(fmt.Sprint("dropped-", len(w.stale.keys), "-", i))] = leftover{there: true, dropped: time.Now()}
	}
}

func tidied(t *testing.T, w *writer) {
	t.Helper()
	if err := w.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// However much each list drops, as much is removed while other changes wait, and some of what is left.
func TestRemovalsKeepUp(t *testing.T) {
	w, p, _ := tidying(Config{})
	w.mirror.marks.end(time.Now(), "1-1")
	w.drops(2000)
	w.stale.fresh = 800
	tidied(t, w)
	if p.removed < 800+mostRemoved || p.removed > 800+mostRemoved+batch {
		t.Errorf("%d are removed", p.removed)
	}
	before := p.removed
	tidied(t, w) // nothing was dropped since
	if n := p.removed - before; n < mostRemoved || n > mostRemoved+batch {
		t.Errorf("%d are removed then", n)
	}
}

// While many objects are removed, others are told, and who asks for something is served.
func TestRemovalsServeAsks(t *testing.T) {
	told := 0
	w, p, _ := tidying(Config{Changed: func(Status) { told++ }})
	w.drops(5000)
	p.each = func() {
		if p.removed == 3000 {
			w.mirror.Check()
		}
	}
	tidied(t, w)
	if told < 2 || p.removed < 3000 || p.removed > 3000+2*batch || !w.mirror.asked() || !w.dirty() {
		t.Errorf("told %d times, %d are removed, asked %t, more to do %t", told, p.removed, w.mirror.asked(), w.dirty())
	}
	tidied(t, w) // what is asked for doesn't keep it from going on
	if p.removed < 3000+batch {
		t.Errorf("%d are removed", p.removed)
	}
}

// Objects that can't be removed are told once, although others can be.
func TestSomeCannotBeRemoved(t *testing.T) {
	w, p, log := tidying(Config{})
	p.refused = "it-stays"
	w.stale.keys[p.refused] = leftover{there: true}
	for range 20 {
		w.drops(5)
		tidied(t, w)
	}
	said := func() int { return strings.Count(log.String(), "lets nothing be removed") }
	if p.removed < 20 || said() != 1 {
		t.Errorf("%d are removed, and it is told %d times", p.removed, said())
	}
	p.refused = ""
	tidied(t, w)
	p.refused = "it-stays-too"
	w.stale.keys[p.refused] = leftover{there: true}
	tidied(t, w)
	if said() != 2 {
		t.Errorf("another time it is told %d times", said())
	}
}

// While a list may arrive late, what it may name stays: only what was dropped long enough before the last list that was written is removed.
func TestWhatALateListMayName(t *testing.T) {
	now := time.Now()
	w, _, _ := tidying(Config{Doubt: time.Minute})
	w.stale.keys["a"] = leftover{there: true, dropped: now}
	for when, c := range map[string]struct {
		began, doubt time.Time
		may          bool
	}{
		"no doubt":                     {now, time.Time{}, true},
		"no list yet":                  {time.Time{}, now, false},
		"a list that began too soon":   {now.Add(time.Minute - 1), now, false},
		"a list that began late":       {now.Add(time.Minute), now, true},
		"and another that failed then": {now.Add(time.Minute), now.Add(time.Hour), true},
	} {
		w.last.began, w.last.doubt = c.began, c.doubt
		w.there.Complete = true
		if may := len(w.removable(1)) == 1; may != c.may || w.dirty() != c.may {
			t.Errorf("%s: removable %t, to do %t", when, may, w.dirty())
		}
	}
}

// changing is a source that changes whenever it is read.
type changing struct {
	Source
	marks *marks
}

func (c changing) Read(name string) ([]byte, error) {
	c.marks.end(time.Now(), name)
	return []byte(name), nil
}

// A store that changes all the time, and a change that doesn't end, hold up nobody who asks for something, and are told in time.
func TestReadingEnds(t *testing.T) {
	for what, begin := range map[string]func(w *writer){
		"it changes all the time": func(w *writer) { w.mirror.marks.end(time.Now(), "1-1") },
		"a change doesn't end":    func(w *writer) { w.mirror.marks.begin() },
	} {
		w, _, _ := tidying(Config{})
		w.cfg.Source = changing{marks: w.mirror.marks}
		begin(w)
		if _, err := w.read(t.Context(), nil, time.Millisecond); !errors.Is(err, errLater) {
			t.Errorf("%s: %v", what, err)
		}
		w.mirror.Check()
		if _, err := w.read(t.Context(), w.mirror.asks, time.Hour); !errors.Is(err, errLater) || !w.mirror.asked() {
			t.Errorf("%s, and somebody asks: %v, still asked %t", what, err, w.mirror.asked())
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.read(ended, nil, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, and it is to end: %v", what, err)
		}
	}
}
