package hooks_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/hooks"
)

// gated is a chore of a queue that runs until let is closed, and counts how many of them run at a time.
type gated struct {
	begun    chan string
	let      chan struct{}
	beside   atomic.Int32
	together atomic.Bool
}

func newGated() *gated { return &gated{begun: make(chan string, 100), let: make(chan struct{})} }

func (g *gated) hook(name, queue string) hooks.Hook {
	return hooks.Hook{Name: name, Events: []hooks.Match{{ID: name}}, Timeout: patience, Queue: queue, Do: func(ctx context.Context) error {
		if g.beside.Add(1) > 1 {
			g.together.Store(true)
		}
		defer g.beside.Add(-1)
		g.begun <- name
		select {
		case <-g.let:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
}

// waiting is how many runs wait.
func (s *stage) waiting() (n int) {
	for _, q := range s.State().Queues {
		n += q.Waiting
	}
	return n
}

// What runs in a queue that no hook has any more goes on to its end, and nothing runs beside it when the queue comes back.
func TestAReloadKillsNothing(t *testing.T) {
	g := newGated()
	s := play(t, 0, g.hook("one", "q"))
	s.send(t, event("one"))
	<-g.begun
	must(t, s.Set(nil))
	must(t, s.Set([]hooks.Hook{g.hook("two", "q")}))
	s.send(t, event("two"))
	wait(t, "the second's run waits", func() bool { return s.waiting() == 1 })
	if st := s.State(); len(st.Queues) != 1 || st.Queues[0].Running != 1 || st.Queues[0].Waiting != 1 {
		t.Errorf("the queue is %+v", st.Queues)
	}
	close(g.let)
	for _, name := range []string{"one", "two"} {
		if r := s.next(t); r.Hook != name || r.Err != "" {
			t.Errorf("%+v, want %s", r, name)
		}
	}
	if g.together.Load() {
		t.Error("two of one queue ran at a time")
	}
	must(t, s.Set(nil))
	wait(t, "the end of the idle queue", func() bool { return len(s.State().Queues) == 0 })
}

// What waits of a hook that gets another queue runs in that, after what runs there.
func TestAHookThatMovesToAnotherQueue(t *testing.T) {
	g, other := newGated(), newGated()
	s := play(t, 0, g.hook("one", "q"), g.hook("two", "q"), other.hook("three", "other"))
	s.send(t, event("one"))
	s.send(t, event("three"))
	<-g.begun
	<-other.begun
	s.send(t, event("two"))
	wait(t, "the second's run waits", func() bool { return s.waiting() == 1 })
	must(t, s.Set([]hooks.Hook{other.hook("two", "other"), other.hook("three", "other")}))
	close(g.let)
	wait(t, "the end of the idle queue", func() bool { return len(s.State().Queues) == 1 || other.together.Load() })
	if st := s.State(); !strings.HasSuffix(st.Queues[0].Name, " other") || st.Queues[0].Waiting != 1 || st.Queues[0].Running != 1 {
		t.Errorf("%+v", st.Queues)
	}
	close(other.let)
	for _, name := range []string{"one", "three", "two"} {
		if r := s.next(t); r.Hook != name || r.Err != "" || r.Event == nil {
			t.Errorf("%+v, want %s", r, name)
		}
	}
	if other.together.Load() {
		t.Error("two of one queue ran at a time")
	}
}

// A daily schedule isn't begun anew by a daily reload.
func TestAReloadKeepsSchedules(t *testing.T) {
	chore := func(name, schedule string) hooks.Hook {
		every, err := hooks.ParseCron(schedule)
		must(t, err)
		return hooks.Hook{Name: name, Schedule: every, Timeout: patience, Queue: "q", Do: func(context.Context) error { return nil }}
	}
	s := play(t, 0, chore("changed", "@every 24h"), chore("gone", "@every 24h"), chore("kept", "@every 24h"))
	next := func() map[string]time.Time {
		out := map[string]time.Time{}
		for _, h := range s.State().Hooks {
			out[h.Name] = h.Next
		}
		return out
	}
	s.Look(time.Now().Add(time.Hour), time.Hour) // as if the hooks were read an hour later
	before := next()
	must(t, s.Set([]hooks.Hook{chore("changed", "@every 20h"), chore("fresh", "@every 24h"), chore("kept", "@every 24h")}))
	after := next()
	if !after["kept"].Equal(before["kept"]) {
		t.Errorf("an unchanged schedule was due at %s, is at %s", before["kept"], after["kept"])
	}
	if in := time.Until(after["changed"]); in > 20*time.Hour || in < 19*time.Hour {
		t.Errorf("a changed schedule is due in %s", in)
	}
	if in := time.Until(after["fresh"]); in > 24*time.Hour || in < 23*time.Hour || len(after) != 3 {
		t.Errorf("a fresh one is due in %s, of %v", in, after)
	}
}
