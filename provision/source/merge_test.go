package source_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	items := source.Merge(zerolog.Nop(), source.From(list{"1-1", "2-1"}, zerolog.Nop()), source.NewPush(zerolog.Nop())).Items(ctx)
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
