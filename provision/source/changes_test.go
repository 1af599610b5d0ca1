package source_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/source"
)

func changes(t *testing.T, p source.Poller, c source.Cursors) *source.Changes {
	t.Helper()
	s, err := source.NewChanges(source.ChangesConfig{NodeID: "node", Poller: p, Cursors: c, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestChangesMovesItsCursorOnlyAfterThePageIsHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		poller := &fakePoller{answers: []pageAnswer{page("e", 7, volume("1-1"), volume("2-1"))}}
		cursor := &memoryCursor{}
		items := changes(t, poller, cursor).Items(ctx)
		first, second := <-items, <-items
		synctest.Wait()
		second.Finish(nil)
		synctest.Wait()
		if got := cursor.Cursor(); got != (explorer.Cursor{}) {
			t.Fatalf("cursor is %+v while %s isn't handled", got, first.Reservation.ID)
		}
		first.Finish(nil)
		synctest.Wait()
		if got := cursor.Cursor(); got != (explorer.Cursor{Epoch: "e", Change: 7}) {
			t.Fatalf("cursor is %+v, want e/7", got)
		}
		cancel()
		if _, open := <-items; open {
			t.Fatal("the channel yields after the end")
		}
	})
}

// A document that the engine couldn't keep makes the page come again; its handled
// documents aren't handed over again.
func TestChangesRepeatsUnkeptReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		both := []*workload.Reservation{volume("1-1"), volume("2-1")}
		poller := &fakePoller{answers: []pageAnswer{page("e", 2, both...), page("e", 3, append(both, volume("3-1"))...), page("e", 4, both...)}}
		cursor := &memoryCursor{}
		items := changes(t, poller, cursor).Items(ctx)
		first := <-items
		first.Finish(errors.New("disk full"))
		(<-items).Finish(nil)
		synctest.Wait()
		if got := cursor.Cursor(); got != (explorer.Cursor{}) {
			t.Fatalf("cursor is %+v, want it unmoved", got)
		}
		if ids := take(items, 2, nil); !slices.Equal(ids, []string{"1-1", "3-1"}) {
			t.Fatalf("second delivery is %v", ids)
		}
		synctest.Wait()
		if got := cursor.Cursor(); got.Change != 3 {
			t.Fatalf("cursor is %+v, want 3", got)
		}
		if ids := take(items, 2, nil); !slices.Equal(ids, []string{"1-1", "2-1"}) {
			t.Fatalf("of another page comes %v, want all", ids)
		}
	})
}

// A document refused for good held up its whole page, ever longer.
func TestChangesSkipsFinalRefusals(t *testing.T) {
	for kind, again := range map[node.Kind]bool{
		node.Invalid: false, node.Refused: false, node.Exist: false, node.NotExist: false,
		node.Transient: true, node.Busy: true, node.Unknown: true, node.Internal: true, node.NoSpace: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			both := []*workload.Reservation{volume("1-1"), volume("2-1")}
			poller := &fakePoller{answers: []pageAnswer{page("e", 2, both...), page("e", 2, both...)}}
			cursor, log := &memoryCursor{}, &syncedLog{}
			s, err := source.NewChanges(source.ChangesConfig{NodeID: "node", Poller: poller, Cursors: cursor, Log: zerolog.New(log)})
			if err != nil {
				t.Fatal(err)
			}
			items := s.Items(ctx)
			(<-items).Finish(node.Errorf(kind, "cannot write 1-1"))
			(<-items).Finish(nil)
			synctest.Wait()
			if moved := cursor.Cursor().Change == 2; moved == again {
				t.Errorf("%s: the cursor has moved: %t", kind, moved)
			}
			if said := log.count("page: skipped"); (said == 1) == again {
				t.Errorf("%s: said %d times that it is skipped", kind, said)
			}
		})
	}
}

func TestChangesOrdersAPage(t *testing.T) {
	gone := func(r *workload.Reservation) *workload.Reservation {
		r.Deletion = &workload.Deletion{Created: time.Unix(1, 0).UTC(), Signature: []byte("s")}
		return r
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		poller := &fakePoller{answers: []pageAnswer{page("e", 9,
			ofType("1-1", workload.TypeContainer), gone(ofType("2-1", workload.TypeVolume)), ofType("3-1", workload.TypeVolume),
			ofType("4-1", "spaceship"), gone(ofType("5-1", workload.TypeContainer)), ofType("6-1", workload.TypeNetwork),
			ofType("7-1", workload.TypeKubernetes), ofType("8-1", workload.TypeZDB), ofType("9-1", workload.TypeContainer))}}
		ids := take(changes(t, poller, &memoryCursor{}).Items(ctx), 9, nil)
		want := []string{"5-1", "2-1", "6-1", "8-1", "3-1", "1-1", "9-1", "7-1", "4-1"}
		if !slices.Equal(ids, want) {
			t.Fatalf("order is %v, want %v", ids, want)
		}
	})
}

func TestChangesCarriesOn(t *testing.T) {
	bad := pageAnswer{page: explorer.Page{Epoch: "e", Head: 9, Next: 9, Reservations: []json.RawMessage{[]byte(`"x"`), []byte(`null`), []byte(`{"id":"3-1"}`)}}}
	tests := map[string]struct {
		answers []pageAnswer
		start   explorer.Cursor
		ids     []string
		end     explorer.Cursor
	}{
		"after errors":                 {answers: []pageAnswer{{err: errors.New("away")}, {err: errors.New("away")}, page("e", 1, volume("1-1"))}, ids: []string{"1-1"}, end: explorer.Cursor{Epoch: "e", Change: 1}},
		"after a page without epoch":   {answers: []pageAnswer{page("", 1, volume("9-9")), page("e", 1, volume("1-1"))}, ids: []string{"1-1"}, end: explorer.Cursor{Epoch: "e", Change: 1}},
		"after next beyond head":       {answers: []pageAnswer{{page: explorer.Page{Epoch: "e", Head: 1, Next: 5}}, page("e", 1, volume("1-1"))}, ids: []string{"1-1"}, end: explorer.Cursor{Epoch: "e", Change: 1}},
		"over documents that are none": {answers: []pageAnswer{bad}, ids: []string{"3-1"}, end: explorer.Cursor{Epoch: "e", Change: 9}},
		"from its cursor":              {answers: []pageAnswer{page("e", 6, volume("6-1"))}, start: explorer.Cursor{Epoch: "e", Change: 5}, ids: []string{"6-1"}, end: explorer.Cursor{Epoch: "e", Change: 6}},
		"with a resync":                {answers: []pageAnswer{{page: explorer.Page{Epoch: "f", Head: 2, Next: 2, Resync: true, Reservations: []json.RawMessage{[]byte(`{"id":"1-1"}`)}}}}, start: explorer.Cursor{Epoch: "e", Change: 5}, ids: []string{"1-1"}, end: explorer.Cursor{Epoch: "f", Change: 2}},
		"when the head fell behind":    {answers: []pageAnswer{page("e", 2), page("e", 2, volume("1-1"))}, start: explorer.Cursor{Epoch: "e", Change: 5}, ids: []string{"1-1"}, end: explorer.Cursor{Epoch: "e", Change: 2}},
		"when the epoch is another":    {answers: []pageAnswer{page("f", 7), page("f", 7, volume("1-1"))}, start: explorer.Cursor{Epoch: "e", Change: 5}, ids: []string{"1-1"}, end: explorer.Cursor{Epoch: "f", Change: 7}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				cursor := &memoryCursor{c: tt.start}
				poller := &fakePoller{answers: tt.answers}
				items := changes(t, poller, cursor).Items(ctx)
				if ids := take(items, len(tt.ids), nil); !slices.Equal(ids, tt.ids) {
					t.Fatalf("yields %v, want %v", ids, tt.ids)
				}
				time.Sleep(2 * time.Second) // a new epoch is worth a pause
				if got := cursor.Cursor(); got != tt.end {
					t.Fatalf("cursor is %+v, want %+v", got, tt.end)
				}
				if asked := poller.cursors(); asked[0] != tt.start || asked[len(asked)-1] != tt.end {
					t.Fatalf("asked at %+v, want from %+v to %+v", asked, tt.start, tt.end)
				}
			})
		})
	}
}

func TestChangesDoesNotSpin(t *testing.T) {
	tests := map[string]func(n int) pageAnswer{
		"errors":                func(int) pageAnswer { return pageAnswer{err: errors.New("away")} },
		"empty answers at once": func(int) pageAnswer { return page("e", 1) },
		"the same page again":   func(int) pageAnswer { return page("e", 1, volume("1-1")) },
		"a new epoch each time": func(n int) pageAnswer { return page(time.Duration(n).String(), 1) },
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
				defer cancel()
				poller := &fakePoller{}
				for n := range 5000 {
					poller.answers = append(poller.answers, answer(n))
				}
				for item := range changes(t, poller, &memoryCursor{c: explorer.Cursor{Epoch: "e", Change: 1}}).Items(ctx) {
					item.Finish(nil)
				}
				if n := len(poller.cursors()); n > 60 || n < 5 {
					t.Fatalf("polled %d times in 10 minutes, want a slow, steady number", n)
				}
			})
		})
	}
}

func TestChangesHonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		poller := &fakePoller{answers: []pageAnswer{{err: &explorer.AnswerError{RetryAfter: 3 * time.Minute}}, page("e", 1, volume("1-1"))}}
		start := time.Now()
		take(changes(t, poller, &memoryCursor{}).Items(ctx), 1, nil)
		if took := time.Since(start); took < 3*time.Minute || took > 4*time.Minute {
			t.Fatalf("asked again after %s, want 3 minutes", took)
		}
	})
}

func TestChangesGoesOnWhenItsCursorCannotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		poller := &fakePoller{answers: []pageAnswer{page("e", 1, volume("1-1")), page("e", 2, volume("2-1"))}}
		cursor := &memoryCursor{fail: errors.New("disk full")}
		if ids := take(changes(t, poller, cursor).Items(ctx), 2, nil); !slices.Equal(ids, []string{"1-1", "2-1"}) {
			t.Fatalf("yields %v", ids)
		}
		if got := cursor.Cursor(); got != (explorer.Cursor{}) {
			t.Fatalf("cursor is %+v, want what is durable", got)
		}
	})
}

func TestChangesResetStartsFromZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		poller := &fakePoller{answers: []pageAnswer{page("e", 1, volume("1-1"))}}
		s := changes(t, poller, &memoryCursor{c: explorer.Cursor{Epoch: "e", Change: 5}})
		s.Reset()
		s.Reset()
		take(s.Items(ctx), 1, nil)
		if asked := poller.cursors(); asked[0] != (explorer.Cursor{}) {
			t.Fatalf("asked at %+v, want from the start", asked[0])
		}
	})
}

func TestChangesResetEndsAPollThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		poller := &fakePoller{}
		failures := 0
		s, err := source.NewChanges(source.ChangesConfig{
			NodeID: "node", Poller: poller, Cursors: &memoryCursor{c: explorer.Cursor{Epoch: "e", Change: 5}},
			OnPoll: func(_ time.Time, err error) {
				if err != nil {
					failures++
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		items := s.Items(ctx)
		time.Sleep(10 * time.Second)
		poller.mu.Lock()
		poller.answers = []pageAnswer{page("e", 5, volume("1-1"))}
		poller.mu.Unlock()
		start := time.Now()
		s.Reset()
		take(items, 1, nil)
		if took := time.Since(start); took > time.Second || failures > 0 {
			t.Fatalf("asked again after %s, with %d failures", took, failures)
		}
		if asked := poller.cursors(); asked[1] != (explorer.Cursor{}) {
			t.Fatalf("asked at %+v", asked)
		}
	})
}

func TestChangesEndsWithinASecond(t *testing.T) {
	for name, answers := range map[string][]pageAnswer{
		"in a long poll":     nil,
		"in a backoff":       {{err: errors.New("away")}, {err: errors.New("away")}, {err: errors.New("away")}},
		"sending":            {page("e", 1, volume("1-1"))},
		"with a stuck first": {{after: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				items := changes(t, &fakePoller{answers: answers}, &memoryCursor{}).Items(ctx)
				time.Sleep(2 * time.Second)
				cancel()
				start := time.Now()
				for range items {
					continue
				}
				if took := time.Since(start); took > time.Second {
					t.Fatalf("ended after %s", took)
				}
			})
		})
	}
}

func TestChangesTellsTheExplorersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		answer := page("e", 1, volume("1-1"))
		var heard []time.Time
		var failures int
		s, err := source.NewChanges(source.ChangesConfig{
			NodeID: "node", Poller: &fakePoller{answers: []pageAnswer{{err: errors.New("away")}, answer}}, Cursors: &memoryCursor{},
			OnPoll: func(at time.Time, err error) {
				if err != nil {
					failures++
					return
				}
				heard = append(heard, at)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		take(s.Items(ctx), 1, nil)
		if failures != 1 || len(heard) != 1 || !heard[0].Equal(answer.page.Time) {
			t.Fatalf("heard %v and %d failures", heard, failures)
		}
	})
}

func TestChangesNeedsItsParts(t *testing.T) {
	good := source.ChangesConfig{NodeID: "n", Poller: &fakePoller{}, Cursors: &memoryCursor{}}
	for name, spoil := range map[string]func(c *source.ChangesConfig){
		"NodeID":  func(c *source.ChangesConfig) { c.NodeID = "" },
		"Poller":  func(c *source.ChangesConfig) { c.Poller = nil },
		"Cursors": func(c *source.ChangesConfig) { c.Cursors = nil },
		"Wait":    func(c *source.ChangesConfig) { c.Wait = -1 },
	} {
		c := good
		spoil(&c)
		if _, err := source.NewChanges(c); err == nil {
			t.Errorf("accepted a config without a good %s", name)
		}
	}
}
