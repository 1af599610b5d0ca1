package workqueue_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/workqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a queue that runs in a test's bubble, with what it handled.
type bench struct {
	*workqueue.Queue[string]
	mu   sync.Mutex
	runs []string
	// fails is how often a key's handling still fails.
	fails map[string]int
	took  time.Duration
	log   bytes.Buffer

	stop  context.CancelFunc
	ended chan error
}

// start makes and runs a queue; change may change its configuration.
func start(t testing.TB, change func(b *bench, c *workqueue.Config[string])) *bench {
	t.Helper()
	b := &bench{fails: map[string]int{}, ended: make(chan error, 1)}
	c := workqueue.Config[string]{Name: "test", Backoff: backoff.Backoff{Base: time.Second, Max: time.Minute}, Log: zerolog.New(&b.log)}
	c.Handle = func(ctx context.Context, key string) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(b.took):
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.runs = append(b.runs, key)
		if b.fails[key] > 0 {
			b.fails[key]--
			return fmt.Errorf("cannot handle %s", key)
		}
		return nil
	}
	if change != nil {
		change(b, &c)
	}
	q, err := workqueue.New(c)
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, b.stop = context.WithCancel(context.Background())
	b.Queue = q
	go func() { b.ended <- q.Run(ctx) }()
	return b
}

func (b *bench) end(t testing.TB) {
	t.Helper()
	b.stop()
	if err := <-b.ended; err != nil {
		t.Error(err)
	}
}

func (b *bench) handled() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.runs)
}

// TestEveryEdge walks each edge of the diagram in the package's documentation.
func TestEveryEdge(t *testing.T) {
	for _, c := range []struct {
		edge  string
		fails int
		valid bool
		// twice adds the key again while it is handled.
		twice  bool
		runs   int
		within time.Duration
	}{
		{edge: "get, not valid, forget, done", fails: 1, runs: 0},
		{edge: "get, valid, handle, ok, forget, done", valid: true, runs: 1, within: time.Second},
		{edge: "handle, error, add rate limited", valid: true, fails: 1, runs: 2, within: 2100 * time.Millisecond},
		{edge: "handle, error, again and again, later and later", valid: true, fails: 4, runs: 5, within: 16 * time.Second},
		{edge: "added while it is handled: once more", valid: true, twice: true, runs: 2, within: time.Second},
		{edge: "added while it is handled, which fails: once more, at once", valid: true, twice: true, fails: 1, runs: 2, within: 250 * time.Millisecond},
	} {
		t.Run(c.edge, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, func(b *bench, conf *workqueue.Config[string]) {
					b.took, b.fails["x"] = 100*time.Millisecond, c.fails
					conf.Valid = func(string) bool { return c.valid }
				})
				b.Add("x")
				if c.twice {
					time.Sleep(50 * time.Millisecond)
					b.Add("x")
				}
				time.Sleep(c.within)
				synctest.Wait()
				if got := b.handled(); len(got) != c.runs {
					t.Errorf("it ran %d times within %s, want %d", len(got), c.within, c.runs)
				}
				s := b.State()
				if s.Waiting+s.Running+s.Failing != 0 || len(s.Keys) != 0 || s.Runs != uint64(c.runs) || c.runs > 0 && s.Failures != uint64(c.fails) {
					t.Errorf("it isn't done: %+v", s)
				}
				b.end(t)
			})
		})
	}
}

func TestAThousandAdditionsCostTwoRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, func(b *bench, _ *workqueue.Config[string]) { b.took = time.Second })
		b.Add("x")
		synctest.Wait()
		for range 1000 {
			b.Add("x")
		}
		time.Sleep(time.Minute)
		if got := b.handled(); len(got) != 2 {
			t.Errorf("they cost %d runs, want 2", len(got))
		}
		b.end(t)
	})
}

func TestASoonerAdditionWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil)
		b.AddAfter("x", time.Hour)
		b.AddAfter("x", time.Minute)
		b.AddAfter("x", 2*time.Hour)
		b.AddAfter("y", -time.Hour)
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if got := b.handled(); !slices.Equal(got, []string{"y"}) {
			t.Errorf("%v was handled before the minute", got)
		}
		time.Sleep(4 * time.Hour)
		if got := b.handled(); !slices.Equal(got, []string{"y", "x"}) {
			t.Errorf("%v was handled", got)
		}
		b.end(t)
	})
}

// A key that is to be handled later again says so while it is handled.
func TestAHandlerAddsItsOwnKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, func(b *bench, c *workqueue.Config[string]) {
			handle := c.Handle
			c.Handle = func(ctx context.Context, key string) error {
				b.AddAfter(key, time.Minute)
				return handle(ctx, key)
			}
		})
		b.Add("x")
		time.Sleep(5*time.Minute + time.Second)
		if got := b.handled(); len(got) != 6 {
			t.Errorf("it ran %d times in five minutes", len(got))
		}
		b.end(t)
	})
}

func TestAPanicIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		b := start(t, func(_ *bench, c *workqueue.Config[string]) {
			c.Handle = func(context.Context, string) error {
				if n++; n < 3 {
					panic("out of order")
				}
				return nil
			}
		})
		b.Add("x")
		synctest.Wait()
		if s := b.State(); s.Failing != 1 || s.Waiting != 1 || s.Keys[0].Failures != 1 || !strings.Contains(s.Keys[0].Cause, "out of order") {
			t.Errorf("after the first panic it holds %+v", s)
		}
		time.Sleep(time.Minute)
		if s := b.State(); n != 3 || s.Runs != 3 || s.Failures != 2 || s.Failing != 0 {
			t.Errorf("it ran %d times: %+v", n, s)
		}
		b.end(t)
	})
}

func TestAFailureIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, func(b *bench, _ *workqueue.Config[string]) { b.fails["x"] = 20 })
		b.Add("x")
		time.Sleep(time.Hour)
		b.end(t)
		if n := strings.Count(b.log.String(), "\n"); n != 1 || len(b.handled()) != 21 {
			t.Errorf("%d failures made %d log lines:\n%s", len(b.handled())-1, n, b.log.String())
		}
	})
}

func TestAHandlerHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, func(b *bench, c *workqueue.Config[string]) { b.took, c.Deadline = time.Hour, time.Minute })
		b.Add("hangs")
		time.Sleep(time.Minute + time.Millisecond)
		synctest.Wait()
		if s := b.State(); s.Failing != 1 || s.Keys[0].Cause != context.DeadlineExceeded.Error() {
			t.Errorf("after its deadline: %+v", s)
		}
		b.end(t)
	})
}

func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, func(b *bench, c *workqueue.Config[string]) { b.took, c.Workers = time.Second, 3 })
		for i := range 7 {
			b.Add(fmt.Sprint(i))
		}
		synctest.Wait()
		for _, want := range []int{3, 6, 7} {
			time.Sleep(time.Second)
			synctest.Wait()
			if got := len(b.handled()); got != want {
				t.Errorf("%d were handled, want %d", got, want)
			}
		}
		b.end(t)
	})
}

func TestKeysComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, func(b *bench, _ *workqueue.Config[string]) { b.took = time.Millisecond })
		var want []string
		for i := range 100 {
			want = append(want, fmt.Sprint(i*37%100))
			b.Add(want[i])
		}
		time.Sleep(time.Second)
		if got := b.handled(); !slices.Equal(got, want) {
			t.Errorf("handled as %v, added as %v", got, want)
		}
		b.end(t)
	})
}

func TestAFullQueueSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, func(b *bench, c *workqueue.Config[string]) { b.took, c.Most = time.Second, 2 })
		b.Add("x")
		synctest.Wait()
		if !b.Add("x") || !b.Add("y") || !b.Add("y") || b.Add("z") {
			t.Error("the bound of two keys isn't kept")
		}
		if s := b.State(); s.Dropped != 1 || s.Waiting != 1 || s.Running != 1 {
			t.Errorf("it holds %+v", s)
		}
		b.end(t)
		if b.Add("x") {
			t.Error("a stopped queue takes keys")
		}
	})
}

func TestAForgottenKeyIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, func(b *bench, _ *workqueue.Config[string]) { b.took, b.fails["x"], b.fails["y"] = time.Second, 9, 9 })
		b.Add("x")
		synctest.Wait()
		b.Add("x")
		b.Forget("x") // while it is handled
		b.AddAfter("y", time.Minute)
		b.Forget("y") // while it waits
		time.Sleep(time.Hour)
		if got, s := b.handled(), b.State(); !slices.Equal(got, []string{"x"}) || s.Waiting+s.Failing != 0 {
			t.Errorf("%v was handled, it holds %+v", got, s)
		}
		b.Add("y")
		synctest.Wait()
		b.Forget("y")
		b.Add("y") // wanted again
		time.Sleep(time.Hour)
		if got := b.handled(); len(got) != 11 {
			t.Errorf("a key that is wanted again was handled %d times, want 10", len(got)-1)
		}
		b.end(t)
	})
}

// What is due when a queue is stopped is handled in order; what comes later, and what fails, isn't.
func TestAStopDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, func(b *bench, c *workqueue.Config[string]) {
			b.took, c.Drain, b.fails["b"] = time.Second, time.Minute, 5
		})
		for _, key := range []string{"a", "b", "c"} {
			b.Add(key)
		}
		b.AddAfter("later", 2*time.Second)
		synctest.Wait()
		began := time.Now()
		b.end(t)
		if got, took := b.handled(), time.Since(began); !slices.Equal(got, []string{"a", "b", "c"}) || took != 3*time.Second {
			t.Errorf("it handled %v in %s", got, took)
		}
		if s := b.State(); len(s.Keys) != 0 {
			t.Errorf("it still holds %+v", s)
		}
	})
}

func TestADrainEnds(t *testing.T) {
	for drain, want := range map[time.Duration]int{0: 0, 2500 * time.Millisecond: 2} {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, func(b *bench, c *workqueue.Config[string]) { b.took, c.Drain = time.Second, drain })
			for i := range 10 {
				b.Add(fmt.Sprint(i))
			}
			synctest.Wait()
			began := time.Now()
			b.end(t)
			if got, took := b.handled(), time.Since(began); len(got) != want || took != drain {
				t.Errorf("within %s it handled %d, want %d; it took %s", drain, len(got), want, took)
			}
			if s := b.State(); s.Failures != 0 {
				t.Errorf("an end is counted as a failure: %+v", s)
			}
		})
	}
}

func TestAHandlerThatDoesNotReturnIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		b := start(t, func(_ *bench, c *workqueue.Config[string]) {
			c.Handle = func(context.Context, string) error { <-let; return nil }
		})
		b.Add("x")
		synctest.Wait()
		b.stop()
		if err := <-b.ended; err == nil || !strings.Contains(err.Error(), "the handling of x") {
			t.Errorf("it ends with %v", err)
		}
		close(let)
	})
}

func TestStateTellsAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, func(b *bench, _ *workqueue.Config[string]) { b.took = time.Hour })
		b.Add("run")
		synctest.Wait()
		time.Sleep(time.Minute)
		b.Add("due")
		b.AddAfter("later", 2*time.Minute)
		time.Sleep(time.Minute)
		got := b.State()
		want := []workqueue.KeyState[string]{{Key: "run", Running: true, For: 2 * time.Minute}, {Key: "due", For: time.Minute}, {Key: "later", For: -time.Minute}}
		if !slices.Equal(got.Keys, want) || got.Oldest != 2*time.Minute || got.Name != "test" {
			t.Errorf("it holds %+v, want %+v", got, want)
		}
		b.end(t)
	})
}

func TestAWrongConfigIsRefused(t *testing.T) {
	handle := func(context.Context, string) error { return nil }
	for want, c := range map[string]workqueue.Config[string]{
		"Name is empty": {Handle: handle},
		"Handle is nil": {Name: "x"},
		"Workers is -1": {Name: "x", Handle: handle, Workers: -1},
		"Most -2":       {Name: "x", Handle: handle, Most: -2},
		"Drain -1s":     {Name: "x", Handle: handle, Drain: -time.Second},
	} {
		if _, err := workqueue.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Whatever is added when, and whatever fails: no key is handled twice at a time, no more are handled than there
// are workers, and each addition is followed by a handling.
func TestAQueueKeepsItsPromises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) { // without the test's Deadline, which a bubble doesn't have
			p := &promises{began: map[string][]time.Time{}, busy: map[string]bool{}, fails: map[string]int{}}
			workers := rapid.IntRange(1, 3).Draw(t, "workers")
			q, err := workqueue.New(workqueue.Config[string]{
				Name: "test", Workers: workers, Backoff: backoff.Backoff{Base: time.Millisecond, Max: time.Second}, Log: zerolog.Nop(), Handle: p.handle,
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- q.Run(ctx) }()
			added := map[string]time.Time{}
			key := rapid.StringMatching(`[a-d]`)
			ms := rapid.IntRange(0, 40)
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				switch rapid.SampledFrom([]string{"add", "add", "after", "fail", "pass"}).Draw(t, "step") {
				case "add":
					k := key.Draw(t, "key")
					q.Add(k)
					added[k] = time.Now()
				case "after":
					k, d := key.Draw(t, "key"), time.Duration(ms.Draw(t, "delay"))*time.Millisecond
					q.AddAfter(k, d)
					added[k] = time.Now()
				case "fail":
					p.failNext(key.Draw(t, "key"))
				case "pass":
					time.Sleep(time.Duration(ms.Draw(t, "pause")) * time.Millisecond)
					synctest.Wait()
				}
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if s := q.State(); len(s.Keys) != 0 || s.Failing != 0 {
				t.Errorf("after an hour it holds %+v", s)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			p.check(t, added, workers)
		})
	})
}

// promises is a handler that looks at the queue's promises.
type promises struct {
	mu     sync.Mutex
	began  map[string][]time.Time
	busy   map[string]bool
	fails  map[string]int
	broken []string
	most   int
}

func (p *promises) failNext(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails[key]++
}

func (p *promises) handle(_ context.Context, key string) error {
	p.mu.Lock()
	if p.busy[key] {
		p.broken = append(p.broken, key+" is handled twice at a time")
	}
	p.busy[key] = true
	p.most = max(p.most, len(p.busy))
	p.began[key] = append(p.began[key], time.Now())
	p.mu.Unlock()
	time.Sleep(7 * time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, key)
	if p.fails[key] > 0 {
		p.fails[key]--
		return fmt.Errorf("cannot handle %s", key)
	}
	return nil
}

func (p *promises) check(t *rapid.T, added map[string]time.Time, workers int) {
	for _, text := range p.broken {
		t.Error(text)
	}
	if p.most > workers {
		t.Errorf("%d were handled at a time by %d workers", p.most, workers)
	}
	for key, at := range added {
		if len(p.began[key]) == 0 || p.began[key][len(p.began[key])-1].Before(at) {
			t.Errorf("%s was added at %s, its handlings began at %v", key, at, p.began[key])
		}
	}
}
