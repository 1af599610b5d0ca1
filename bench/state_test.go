package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/s3test"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/plane"
	"github.com/croft-edge/croft/provision/store"
)

// beside is what works beside an engine; the zero value is nothing.
type beside struct {
	// plane, when set, shows what the engine does.
	plane *shown
	// place, when set, makes the place of the mirror of a round's store, and sent, when set, counts what the mirrors get while the engine works.
	place func() *place
	sent  *int64
	// sick, when set, has the place fail while the engine works.
	sick func(now bool)
}

// board is where the engine shows itself; nil for nowhere.
func (w beside) board() provision.Board {
	if w.plane == nil {
		return nil
	}
	return w.plane.engine
}

// mirrorPace is the least time between two lists of a mirror: a tenth of a node's, so that rounds of a second have some.
const mirrorPace = 500 * time.Millisecond

// copy makes the mirror of a round's store. begin runs it and waits until it has what is in the new store, so that the round begins with a mirror
// that waits for changes; end stops it, wherever it is.
func (w beside) copy(b *testing.B, dir string, node sign.KeyPair, c *store.Config) (begin func(*store.FSStore), end func()) {
	b.Helper()
	if w.place == nil {
		return func(*store.FSStore) {}, func() {}
	}
	m := newCopied(b, w.place(), dir, node, mirrorPace)
	c.OnChange = m.Mark
	before := int64(0)
	begin = func(records *store.FSStore) {
		m.run(records)
		m.whole(b)
		before = m.at.puts.Load()
		if w.sick != nil {
			w.sick(true)
		}
	}
	return begin, func() {
		if w.sent != nil {
			*w.sent += m.at.puts.Load() - before
		}
		if w.sick != nil {
			w.sick(false)
		}
		m.stop()
	}
}

// shown is a running plane with the engine's controller, whose history is a file.
type shown struct {
	*plane.Plane
	engine *plane.Engine
	stop   func()
}

// refusing carries out no orders.
type refusing struct{}

func (refusing) CarryOut(context.Context, work.OrderSpec) (string, error) {
	return "", errors.New("cannot carry out an order: a benchmark has none")
}

func newShown(b *testing.B) *shown {
	b.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	p, err := plane.Open(plane.Config{History: filepath.Join(b.TempDir(), "history.db"), Key: key, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	s := &shown{Plane: p, engine: plane.NewEngine(plane.EngineConfig{Orders: refusing{}, ClockChanged: func() {}, Log: zerolog.Nop()})}
	p.Add(s.engine, plane.Past{Log: zerolog.Nop()})
	p.AddQueued(plane.OrderCleaner())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
		_ = p.Close()
	}
	return s
}

// fill makes the history full: events of many users.
func (s *shown) fill(b *testing.B) {
	b.Helper()
	for i := range historySize {
		s.engine.Event(work.EventSpec{Kind: work.Normal, Reason: work.ReasonCreated, Object: fmt.Sprintf("volume/%d-9", i), User: fmt.Sprintf("user %d", i%10), Last: time.Now().UTC()})
		if i%500 == 499 { // further ones would be dropped
			s.written(b)
		}
	}
}

// historySize is how many events a history has at most.
const historySize = 2000

// rest has nothing of a batch shown any more, and waits until the plane has nothing left to do.
func (s *shown) rest(b *testing.B, all batch) {
	b.Helper()
	var gone []string
	for _, r := range all {
		gone = append(gone, r.ID)
	}
	s.engine.Workloads(nil, gone)
	s.written(b)
	s.await(b, "nothing is shown", func() bool {
		left, err := safe.StateListAll[*work.Workload](b.Context(), s.State())
		return err == nil && left.Len() == 0
	})
	s.await(b, "the history is pruned", func() bool { return s.events(b, "") <= historySize })
}

// written waits until all events are in the history: they are written in turn, so that one of its own is the last. That one is added again
// when it isn't there soon: it may have been dropped.
func (s *shown) written(b *testing.B) {
	b.Helper()
	last := work.EventSpec{Kind: work.Normal, Reason: work.ReasonCreated, Object: fmt.Sprintf("bench/%d", time.Now().UnixNano())}
	var added time.Time
	s.await(b, "the events are written", func() bool {
		if time.Since(added) > time.Second {
			added, last.Last = time.Now(), time.Now().UTC()
			s.engine.Event(last)
		}
		return s.events(b, last.Object) > 0
	})
}

// events counts the events about an object, or all.
func (s *shown) events(b *testing.B, object string) int {
	b.Helper()
	all, err := safe.StateListAll[*work.Event](b.Context(), s.State())
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for e := range all.All() {
		if object == "" || e.TypedSpec().Object == object {
			n++
		}
	}
	return n
}

func (s *shown) await(b *testing.B, what string, is func() bool) {
	b.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("not so after two minutes: %s", what)
		}
	}
}

// side is an engine with what works beside it, and how long its rounds took.
type side struct {
	name, budget string
	with         beside
	took         []time.Duration
}

// sides are the engine alone, beside one or both of the plane and a mirror, and beside a mirror whose server fails.
func sides(b *testing.B, p *shown, sent *int64) []*side {
	b.Helper()
	server, n := s3test.New(b), 0
	at := func(address string) func() *place {
		return func() *place {
			n++
			return newBucket(b, address, fmt.Sprintf("round/%d", n))
		}
	}
	// sick is beside a mirror on a server that answers no request while the engine works as it should.
	sick := func(answer func(w http.ResponseWriter, r *http.Request)) beside {
		proxy := s3test.NewProxy(b, server)
		return beside{place: at(proxy.Address), sick: func(now bool) {
			if !now {
				proxy.Before(nil)
				return
			}
			proxy.Before(func(w http.ResponseWriter, r *http.Request) bool {
				answer(w, r)
				return true
			})
		}}
	}
	onS3 := at(server.Address)
	inFolder := func() *place { return newFolder(b) }
	const budget = "≥ 0.95 × alone"
	return []*side{
		{},
		{name: "engine beside the plane", budget: "none", with: beside{plane: p}},
		{name: "engine beside a mirror on S3", budget: "none", with: beside{place: onS3, sent: sent}},
		{name: "engine beside a mirror on an S3 that says 503", budget: "none", with: sick(func(w http.ResponseWriter, _ *http.Request) {
			s3test.Answer(w, http.StatusServiceUnavailable, "SlowDown")
		})},
		{name: "engine beside a mirror on an S3 that hangs", budget: "none", with: sick(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // without it nobody sees that the client is gone
			<-r.Context().Done()
		})},
		{name: "engine beside plane and mirror in a folder", budget: budget, with: beside{plane: p, place: inFolder, sent: sent}},
		{name: "engine beside plane and mirror on S3", budget: budget, with: beside{plane: p, place: onS3, sent: sent}},
	}
}

// BenchmarkEngineBesideItsState compares the engine, with a no-op provisioner and the durable store, with the same beside the state plane, which has
// a full history on the same disk, and beside a mirror, in a folder in memory or on an S3 server of this machine, also one that fails. They take turns, and each round
// begins when the work of the others is done, and all of it is on the disk. The ratio is the median of the rounds' ratios.
func BenchmarkEngineBesideItsState(b *testing.B) {
	const rounds, each = 30, 300
	for b.Loop() {
		p, sent := newShown(b), int64(0)
		p.fill(b)
		all := sides(b, p, &sent)
		node, user := benchKey(b), benchKey(b)
		for round := range rounds + 1 { // the first one isn't counted
			for i := range all {
				s := all[(round+i)%len(all)]
				some := signed(b, node, user, (round*len(all)+i)*each, each)
				unix.Sync() // what the round before has left to write isn't this one's
				took := engineRound(b, node, some, s.with)
				if s.with.plane != nil {
					p.rest(b, some)
				}
				if round > 0 {
					s.took = append(s.took, took)
				}
			}
		}
		if sent == 0 {
			b.Fatal("the mirrors got nothing while the engine worked")
		}
		b.Logf("events that weren't recorded: %d; objects that mirrors got while the engine worked: %.2f a reservation",
			p.engine.Dropped(), float64(sent)/float64(3*(rounds+1)*each))
		p.stop()
		for _, s := range all[1:] {
			figure, ratio := s.against(all[0], each)
			report(b, s.name, s.budget, figure, ratio)
		}
	}
}

// against compares the rounds with those of the engine alone: reservations a second, with the quartiles of the rounds' ratios, and their median.
func (s *side) against(alone *side, each int) (string, float64) {
	var ratios []float64
	var ours, theirs time.Duration
	for i := range s.took {
		ours, theirs = ours+s.took[i], theirs+alone.took[i]
		ratios = append(ratios, alone.took[i].Seconds()/s.took[i].Seconds())
	}
	slices.Sort(ratios)
	n := len(ratios)
	perSecond := func(d time.Duration) float64 { return float64(n*each) / d.Seconds() }
	return fmt.Sprintf("%.0f/s of %.0f/s (%.2f to %.2f)", perSecond(ours), perSecond(theirs), ratios[n/4], ratios[n-1-n/4]), (ratios[(n-1)/2] + ratios[n/2]) / 2
}
