package source_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
)

// mine counts the panics still to come. A nil one has none.
type mine struct {
	mu   sync.Mutex
	left int
}

func (m *mine) step() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left > 0 {
		m.left--
		panic("stepped on a mine")
	}
}

// The parts that sources use, each with its mine.
type (
	minedPoller struct {
		*mine
		*fakePoller
	}
	minedCursor struct {
		read, write *mine
		memoryCursor
	}
	minedSeed struct {
		*mine
		*seedStore
	}
	minedExpirer struct {
		*mine
		expirer
	}
	minedSource struct {
		*mine
		list
	}
)

func (p minedPoller) PollPage(ctx context.Context, id string, after explorer.Cursor, wait time.Duration) (explorer.Page, error) {
	p.step()
	return p.fakePoller.PollPage(ctx, id, after, wait)
}

func (c *minedCursor) Cursor() explorer.Cursor {
	c.read.step()
	return c.memoryCursor.Cursor()
}

func (c *minedCursor) SetCursor(to explorer.Cursor) error {
	c.write.step()
	return c.memoryCursor.SetCursor(to)
}

func (s minedSeed) Poll(id workload.Identifier, from uint64) ([]*workload.Reservation, error) {
	s.step()
	return s.seedStore.Poll(id, from)
}

func (e minedExpirer) GetExpired() ([]*workload.Reservation, error) {
	e.step()
	return e.expirer.GetExpired()
}

func (s minedSource) Reservations(ctx context.Context) <-chan *workload.Reservation {
	s.step()
	return s.list.Reservations(ctx)
}

// fatal are the sources that yield 1-1, and use something that panics a few times first.
func fatal(t *testing.T, m *mine, log zerolog.Logger) map[string]func() source.Source {
	changes := func(c source.ChangesConfig) source.Source {
		c.NodeID, c.Log = "node", log
		s, err := source.NewChanges(c)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	poller := func() *fakePoller {
		same := page("e", 1, volume("1-1")) // polled again after a panic
		return &fakePoller{answers: []pageAnswer{same, same, same, same, same}}
	}
	seed := func() *seedStore {
		return &seedStore{answers: []seedAnswer{{batch: []*workload.Reservation{volume("1-1")}, err: workload.ErrPollEOS}}}
	}
	return map[string]func() source.Source{
		"a poller": func() source.Source {
			return changes(source.ChangesConfig{Poller: minedPoller{m, poller()}, Cursors: &memoryCursor{}})
		},
		"reading the cursor": func() source.Source {
			return changes(source.ChangesConfig{Poller: poller(), Cursors: &minedCursor{read: m}})
		},
		"a listener to polls": func() source.Source {
			return changes(source.ChangesConfig{Poller: poller(), Cursors: &memoryCursor{}, OnPoll: func(time.Time, error) { m.step() }})
		},
		"a seed's poller": func() source.Source {
			return source.From(source.Poll(minedSeed{m, seed()}, workload.StrIdentifier("node"), log), log)
		},
		"a seed's store": func() source.Source {
			return source.From(source.Decommission(minedExpirer{mine: m}, log), log)
		},
		"a seed's source":   func() source.Source { return source.From(minedSource{m, list{"1-1"}}, log) },
		"a combined source": func() source.Source { return source.From(source.Combined(log, minedSource{m, list{"1-1"}}), log) },
		"a merged source": func() source.Source {
			return source.Merge(log, source.From(minedSource{m, list{"1-1"}}, log))
		},
	}
}

// Each part that a source uses may panic: it is logged, and the source goes on.
func TestSourcesGoOnAfterPanics(t *testing.T) {
	for name := range fatal(t, nil, zerolog.Nop()) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const panics = 4
				log := &syncedLog{}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := time.Now()
				items := fatal(t, &mine{left: panics}, zerolog.New(log))[name]().Items(ctx)
				if ids := take(items, 1, nil); !slices.Equal(ids, []string{"1-1"}) {
					t.Fatalf("yields %v", ids)
				}
				if took := time.Since(start); took < 3*time.Second || took > time.Minute {
					t.Errorf("came after %s, want a growing wait between the panics", took)
				}
				if n := log.count(`"stack":`); n != panics {
					t.Errorf("%d stacks were logged for %d panics", n, panics)
				}
				cancel()
				stopped := time.Now()
				for range items {
					continue
				}
				if took := time.Since(stopped); took > time.Second {
					t.Errorf("ended after %s", took)
				}
			})
		})
	}
}

// A page comes again if a panic kept its cursor from being written.
func TestChangesGoesOnWhenWritingTheCursorPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		cursor := &minedCursor{write: &mine{left: 2}}
		both := page("e", 1, volume("1-1"), volume("2-1"))
		items := changes(t, &fakePoller{answers: []pageAnswer{both, both, both}}, cursor).Items(ctx)
		if ids := take(items, 6, nil); len(ids) != 6 {
			t.Fatalf("yields %v", ids)
		}
		synctest.Wait()
		if got := cursor.Cursor(); got.Change != 1 {
			t.Fatalf("cursor is %+v", got)
		}
	})
}

// A look, or a comparison, that panics has failed: the type is looked at again,
// and the others meanwhile.
func TestDriftGoesOnAfterPanics(t *testing.T) {
	for _, name := range []string{"look", "comparison"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, bad := &syncedLog{}, &mine{left: 3}
				moved := &module{seen: map[provisioner.Label]provisioner.Seen{{ID: "1-1"}: {Drift: "gone"}}}
				step := func(in string, of workload.Type) {
					if in == name && of == workload.TypeVolume {
						bad.step()
					}
				}
				d, err := source.NewDrift(source.DriftConfig{
					Looks: map[workload.Type]source.Look{
						workload.TypeNetwork: moved.look,
						workload.TypeVolume: func(ctx context.Context) (map[provisioner.Label]provisioner.Seen, error) {
							step("look", workload.TypeVolume)
							return moved.look(ctx)
						},
					},
					Differs: func(of workload.Type, seen map[provisioner.Label]provisioner.Seen, _ []string) bool {
						step("comparison", of)
						return anythingDiffers(of, seen, nil)
					},
					Every: 10 * time.Second, Deadline: 10 * time.Second, Log: zerolog.New(log),
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start, others := time.Now(), 0
				for item := range d.Items(ctx) {
					item.Finish(nil)
					if item.Type == workload.TypeVolume {
						break
					}
					others++
				}
				if took := time.Since(start); took > time.Minute || others < 2 {
					t.Errorf("looked at well after %s, with %d looks at the other type meanwhile", took, others)
				}
				if log.count(`"stack":`) != 3 || log.count("cannot compare") != 1 || log.count("compared again") != 1 {
					t.Errorf("logged %s", log.text.String())
				}
			})
		})
	}
}
