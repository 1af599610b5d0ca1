package source_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wall is a wall clock that can be set and doubted.
type wall struct {
	mu      sync.Mutex
	offset  time.Duration
	doubted bool
}

func (w *wall) now() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.offset), !w.doubted
}

func (w *wall) set(offset time.Duration, doubted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offset, w.doubted = offset, doubted
}

func TestScheduleYieldsEachAtItsTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		delays := rapid.SliceOfN(rapid.IntRange(0, 10_000), 1, 20).Draw(rt, "delays")
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			w := &wall{}
			s := source.NewExpiry(w.now, time.Minute)
			start := time.Now()
			for i, d := range delays {
				s.Set(strconv.Itoa(i), workload.TypeVolume, start.Add(time.Duration(d)*time.Second))
			}
			items := s.Items(ctx)
			last := time.Duration(0)
			for range delays {
				item := <-items
				i, _ := strconv.Atoi(item.ID)
				took := time.Since(start)
				if want := time.Duration(delays[i]) * time.Second; took != want {
					t.Fatalf("%s came after %s, want %s", item.ID, took, want)
				}
				if took < last || item.Kind != source.Expiry {
					t.Fatalf("%+v came out of order", item)
				}
				last = took
			}
		})
	})
}

func TestScheduleCanBeMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		s := source.NewRetry()
		items := s.Items(ctx)
		start := time.Now()
		s.Set("late", workload.TypeVolume, start.Add(time.Hour))
		s.Set("moved", workload.TypeVolume, start.Add(time.Minute))
		s.Set("gone", workload.TypeVolume, start.Add(time.Second))
		synctest.Wait()
		s.Remove("gone")
		s.Remove("never there")
		s.Set("moved", workload.TypeVolume, start.Add(2*time.Hour))
		s.Set("sooner", workload.TypeVolume, start.Add(30*time.Minute))
		if got := take(items, 3, nil); !slices.Equal(got, []string{"sooner", "late", "moved"}) {
			t.Fatalf("yields %v", got)
		}
		if took := time.Since(start); took != 2*time.Hour {
			t.Fatalf("the last came after %s, want 2h", took)
		}
	})
}

func TestScheduleYieldsUsersBeforeWhatTheyUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		s := source.NewRetry()
		for id, kind := range map[string]workload.Type{"net": workload.TypeNetwork, "vol": workload.TypeVolume, "box": workload.TypeContainer} {
			s.Set(id, kind, time.Now())
		}
		if got := take(s.Items(ctx), 3, nil); !slices.Equal(got, []string{"box", "vol", "net"}) {
			t.Fatalf("yields %v", got)
		}
	})
}

func TestExpiryWaitsForAClockThatCanBeTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w := &wall{doubted: true, offset: 365 * 24 * time.Hour}
		s := source.NewExpiry(w.now, time.Minute)
		s.Set("1-1", workload.TypeVolume, time.Now().Add(time.Hour))
		items := s.Items(ctx)
		select {
		case item := <-items:
			t.Fatalf("%s came due by a clock that can't be trusted", item.ID)
		case <-time.After(30 * time.Minute):
		}
		w.set(0, false)
		start := time.Now()
		<-items
		if took := time.Since(start); took < 29*time.Minute || took > 31*time.Minute {
			t.Fatalf("came due after %s, want at its time, 30 minutes later", took)
		}
	})
}

func TestExpiryNoticesThatTheClockWasSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w := &wall{}
		s := source.NewExpiry(w.now, time.Minute)
		s.Set("1-1", workload.TypeVolume, time.Now().Add(24*time.Hour))
		items := s.Items(ctx)
		time.Sleep(time.Second)
		w.set(24*time.Hour, false)
		start := time.Now()
		<-items
		if took := time.Since(start); took > time.Minute {
			t.Fatalf("came due %s after the clock was set, want within a minute", took)
		}
	})
}

func TestScheduleEndsWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, set := range []bool{false, true} {
			ctx, cancel := context.WithCancel(context.Background())
			s := source.NewRetry()
			if set {
				s.Set("nobody reads it", workload.TypeVolume, time.Now())
			}
			items := s.Items(ctx)
			time.Sleep(time.Minute)
			cancel()
			start := time.Now()
			for range items {
				continue
			}
			if took := time.Since(start); took > time.Second {
				t.Fatalf("ended after %s", took)
			}
		}
	})
}

// list is a source of a few reservations.
type list []string

func (l list) Reservations(ctx context.Context) <-chan *workload.Reservation {
	out := make(chan *workload.Reservation)
	go func() {
		defer close(out)
		for _, id := range l {
			select {
			case out <- volume(id):
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func TestMergeYieldsAllAndClosesWhenAllHave(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var ids []string
	for r := range source.Combined(zerolog.Nop(), list{"1-1", "2-1"}, list{}, list{"3-1"}).Reservations(ctx) {
		ids = append(ids, r.ID)
	}
	for item := range source.Merge(zerolog.Nop(), source.From(list{"4-1"}, zerolog.Nop()), source.From(list{"5-1", "6-1"}, zerolog.Nop())).Items(ctx) {
		if item.Kind != source.Arrived {
			t.Fatalf("kind is %s", item.Kind)
		}
		ids = append(ids, item.Reservation.ID)
	}
	slices.Sort(ids)
	if want := []string{"1-1", "2-1", "3-1", "4-1", "5-1", "6-1"}; !slices.Equal(ids, want) {
		t.Fatalf("yields %v, want %v", ids, want)
	}
	for range source.Merge(zerolog.Nop()).Items(ctx) {
		t.Fatal("nothing yields something")
	}
}

func TestMergeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	items := source.Merge(zerolog.Nop(), source.From(list{"1-1", "2-1"}, zerolog.Nop()), source.NewRetry()).Items(ctx)
	<-items
	cancel()
	ended := time.After(time.Second)
	for {
		select {
		case _, open := <-items:
			if !open {
				return
			}
		case <-ended:
			t.Fatal("not ended within a second")
		}
	}
}

func TestBackoffGrowsToItsMost(t *testing.T) {
	b := source.Backoff{Base: time.Second, Max: time.Minute}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(-1, 1<<20).Draw(t, "failures")
		full := time.Minute
		if n < 7 {
			full = time.Second << max(n-1, 0)
		}
		if d := b.Delay(n); d < full/2 || d > full {
			t.Fatalf("delay %d is %s, want between %s and %s", n, d, full/2, full)
		}
	})
	if d := (source.Backoff{}).Delay(3); d != 0 {
		t.Fatalf("the zero backoff waits %s", d)
	}
}
