package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/cmd/croftd/internal/mirrors"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/provision/persist/mirror"
)

// nodeStarted is when the node's process started.
var nodeStarted = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const mirrorName = "s3-1a2b3c4d5e6f7081"

// mirrorIs is a mirror as the set of mirrors shows it after a try.
func mirrorIs(change func(*mirrors.Status)) mirrors.Status {
	s := mirrors.Status{Status: mirror.Status{Instance: mirrorName, Up: true, Complete: true}, Place: "s3://host/bucket", Latency: 0.1}
	change(&s)
	return s
}

// failing is a mirror that fails so.
func failing(why string, more ...func(*mirrors.Status)) mirrors.Status {
	return mirrorIs(func(s *mirrors.Status) {
		s.Error, s.Behind, s.Names = why, why, 3
		for _, change := range more {
			change(s)
		}
	})
}

// waiting is a mirror that works, with changes on their way; slow is one whose oldest change has waited for too long.
func waiting(names int) mirrors.Status { return mirrorIs(func(s *mirrors.Status) { s.Names = names }) }

func slow(names int) mirrors.Status {
	return mirrorIs(func(s *mirrors.Status) {
		s.Names, s.Behind = names, fmt.Sprintf("%d files wait to be copied, the first of them since yesterday", names)
	})
}

func isDown(s *mirrors.Status) { s.Up = false }

// mirrorStates are the states that a mirror may be in after a try, by what an operator would call them.
func mirrorStates() map[string]mirrors.Status {
	return map[string]mirrors.Status{
		"up":            mirrorIs(func(*mirrors.Status) {}),
		"new":           mirrorIs(func(s *mirrors.Status) { s.Complete = false }),
		"works":         waiting(5),
		"much to do":    waiting(4000),
		"catches up":    mirrorIs(func(s *mirrors.Status) { s.Names, s.Listed = 4000, nodeStarted.Add(time.Second) }),
		"old list":      mirrorIs(func(s *mirrors.Status) { s.Names, s.Listed = 4000, nodeStarted.Add(-time.Second) }),
		"slow":          slow(17),
		"slower":        slow(4711),
		"down":          failing("cannot reach it", isDown),
		"still down":    failing("cannot resolve its name", isDown),
		"refused":       failing("403 AccessDenied"),
		"full":          failing("cannot write: no space left on device"),
		"another's":     failing("it has files of another store", func(s *mirrors.Status) { s.Held = s.Error }),
		"replaced":      mirrorIs(func(s *mirrors.Status) { s.Complete, s.Names = false, 900 }),
		"unfit objects": mirrorIs(func(s *mirrors.Status) { s.Unfit = 2 }),
	}
}

// TestMirrorEvents: that a mirror falls behind is told once, however it goes on to fail, and so is its end.
func TestMirrorEvents(t *testing.T) {
	const (
		behind, synced = work.ReasonMirrorBehind, work.ReasonMirrorSynced
		none           = ""
	)
	type step struct{ state, event, says string }
	for name, steps := range map[string][]step{
		"works":              {{"new", none, ""}, {"works", none, ""}, {"up", none, ""}, {"up", none, ""}, {"much to do", none, ""}, {"unfit objects", none, ""}},
		"down and back":      {{"up", none, ""}, {"down", behind, "cannot reach it"}, {"down", none, ""}, {"up", synced, "0 files are left"}, {"up", none, ""}},
		"down from start":    {{"down", behind, "cannot reach it"}, {"down", none, ""}, {"new", synced, "0 files"}},
		"fails differently":  {{"down", behind, "cannot reach it"}, {"still down", none, ""}, {"refused", none, ""}, {"full", none, ""}, {"works", synced, "5 files are left"}},
		"refused":            {{"up", none, ""}, {"refused", behind, "403 AccessDenied"}, {"refused", none, ""}, {"up", synced, "0 files"}},
		"too slow":           {{"much to do", none, ""}, {"slow", behind, "17 files wait"}, {"slower", none, ""}, {"much to do", synced, "4000 files are left"}, {"up", none, ""}},
		"slow, then down":    {{"slow", behind, "17 files wait"}, {"down", none, ""}, {"slower", none, ""}, {"up", synced, "0 files"}},
		"another's":          {{"another's", behind, "another store"}, {"another's", none, ""}, {"replaced", synced, "900 files are left"}, {"up", none, ""}},
		"down again":         {{"down", behind, "cannot reach"}, {"up", synced, ""}, {"refused", behind, "403"}, {"up", synced, ""}, {"full", behind, "no space"}},
		"its place is taken": {{"up", none, ""}, {"another's", behind, "another store"}, {"down", none, ""}, {"another's", none, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			before := mirrors.Status{}
			for i, s := range steps {
				after, known := mirrorStates()[s.state]
				if !known {
					t.Fatalf("there is no state %q", s.state)
				}
				now := time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC)
				got, happened := mirrorEvent(before, after, now)
				before = after
				if happened != (s.event != none) || got.Reason != s.event || !strings.Contains(got.Message, s.says) {
					t.Errorf("step %d, %s: %q %q, want %q %q", i, s.state, got.Reason, got.Message, s.event, s.says)
				}
				wantMirrorEvent(t, got, happened, now)
			}
		})
	}
}

// wantMirrorEvent checks what holds of every event of a mirror.
func wantMirrorEvent(t interface{ Errorf(string, ...any) }, got work.EventSpec, happened bool, now time.Time) {
	if !happened {
		if got != (work.EventSpec{}) {
			t.Errorf("nothing has happened, and it makes %+v", got)
		}
		return
	}
	kinds := map[string]string{work.ReasonMirrorBehind: work.Warning, work.ReasonMirrorSynced: work.Normal}
	reason, known := work.ReasonOf(got.Reason)
	if !known || got.Kind != kinds[got.Reason] || got.Kind != reason.Kind || got.Operation != reason.Operation {
		t.Errorf("%+v: isn't of kind and operation of %+v", got, reason)
	}
	if got.Object != "mirror/"+mirrorName || got.User != "" || got.Message == "" || !got.Last.Equal(now) {
		t.Errorf("%+v: is about no mirror of the node, or not of %s", got, now)
	}
}

// However a mirror's states follow each other, events of it alternate, and there are as many as the times that it began or ceased to be behind: tries that
// change nothing of that, of which there may be one a second, make none.
func TestMirrorEventsAlternate(t *testing.T) {
	states := mirrorStates()
	names := make([]string, 0, len(states))
	for name := range states {
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		isBehind, wanted, made := false, 0, 0
		before, last := mirrors.Status{}, ""
		for at, name := range rapid.SliceOfN(rapid.SampledFrom(names), 1, 40).Draw(t, "states") {
			if after := states[name]; (after.Behind != "") != isBehind {
				isBehind = !isBehind
				wanted++
			}
			for try := range rapid.IntRange(1, 5).Draw(t, "tries") {
				now := time.Unix(int64(at), int64(try)).UTC()
				after := states[name]
				after.Since, after.Latency = now, float64(try) // what changes with each try
				got, happened := mirrorEvent(before, after, now)
				before = after
				wantMirrorEvent(t, got, happened, now)
				if !happened {
					continue
				}
				if made++; got.Reason == last || (got.Reason == work.ReasonMirrorBehind) != isBehind {
					t.Errorf("%s, try %d: %s after %q", name, try, got.Reason, last)
				}
				last = got.Reason
			}
		}
		if made != wanted {
			t.Errorf("%d events, want %d", made, wanted)
		}
	})
}

// mirrorHistory is a history of events about one mirror, which outlives processes.
type mirrorHistory struct{ events []work.EventSpec }

func (h *mirrorHistory) last() string {
	if len(h.events) == 0 {
		return ""
	}
	return h.events[len(h.events)-1].Reason
}

func (h *mirrorHistory) Event(s work.EventSpec) { h.events = append(h.events, s) }

func (h *mirrorHistory) EventAfter(reason string, s work.EventSpec) {
	if h.last() == reason {
		h.Event(s)
	}
}

// However a mirror's states follow each other, and whenever the node ends and starts: a mirror that works is never the subject of a last event that says
// that it is behind, one that is behind always is, and its end is told only after its beginning.
func TestMirrorEventsOverRestarts(t *testing.T) {
	states := mirrorStates()
	names := slices.Sorted(maps.Keys(states))
	rapid.Check(t, func(t *rapid.T) {
		h := &mirrorHistory{}
		before := mirrors.Status{}
		for at, name := range rapid.SliceOfN(rapid.SampledFrom(append(names, "restart", "restart")), 1, 40).Draw(t, "states") {
			if name == "restart" {
				before = mirrors.Status{}
				continue
			}
			after, was, begins := states[name], h.last(), before.Instance == ""
			tellMirror(h, before, after, nodeStarted, time.Unix(int64(at), 0).UTC())
			before = after
			switch is := h.last(); {
			case after.Behind != "" && is != work.ReasonMirrorBehind:
				t.Fatalf("%s: the last event is %q", name, is)
			case slices.Contains([]string{"up", "catches up", "unfit objects"}, name) && is == work.ReasonMirrorBehind:
				t.Fatalf("%s: it works, and the last event says that it is behind", name)
			case begins && after.Names > 0 && name != "catches up" && is != was && is == work.ReasonMirrorSynced:
				t.Fatalf("%s: a process that has brought nothing up to date yet says that it is synced", name)
			case is == work.ReasonMirrorSynced && was == "":
				t.Fatalf("%s: it is told as synced, and was never behind", name)
			}
		}
		for _, e := range h.events {
			wantMirrorEvent(t, e, true, e.Last)
		}
		for i := 1; i < len(h.events); i++ {
			if h.events[i].Reason == work.ReasonMirrorSynced && h.events[i-1].Reason == work.ReasonMirrorSynced {
				t.Fatalf("synced twice in a row: %+v", h.events)
			}
		}
	})
}
