package source_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pkgerrors "github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/source"
)

// seedStore is the seed's kind of explorer: answers in turn, then none.
type seedStore struct {
	mu      sync.Mutex
	answers []seedAnswer
	asked   []uint64
	hang    chan struct{}
}

type seedAnswer struct {
	batch []*workload.Reservation
	err   error
	after time.Duration
}

func (s *seedStore) Poll(_ workload.Identifier, from uint64) ([]*workload.Reservation, error) {
	s.mu.Lock()
	s.asked = append(s.asked, from)
	if len(s.answers) == 0 {
		s.mu.Unlock()
		<-s.hang
		return nil, errors.New("closed")
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	s.mu.Unlock()
	time.Sleep(a.after)
	return a.batch, a.err
}

func (s *seedStore) from() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func poll(t *testing.T, store *seedStore, want int) []string {
	t.Helper()
	store.hang = make(chan struct{})
	defer close(store.hang)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	items := source.Poll(store, workload.StrIdentifier("node"), zerolog.Nop()).Reservations(ctx)
	var ids []string
	for range want {
		r, open := <-items
		if !open {
			return append(ids, "closed")
		}
		ids = append(ids, r.ID)
	}
	synctest.Wait()
	return ids
}

func TestSeedPollAsksAfterTheLargestSeen(t *testing.T) {
	last := fmt.Sprintf("%d-1", uint64(math.MaxUint64))
	tests := map[string]struct {
		answers []seedAnswer
		ids     []string
		from    []uint64
	}{
		"in order":              {answers: []seedAnswer{{batch: []*workload.Reservation{volume("0-1"), volume("1-1")}}, {batch: []*workload.Reservation{volume("2-1")}}}, ids: []string{"0-1", "1-1", "2-1"}, from: []uint64{0, 2, 3}},
		"out of order":          {answers: []seedAnswer{{batch: []*workload.Reservation{volume("7-1"), volume("3-1")}}}, ids: []string{"7-1", "3-1"}, from: []uint64{0, 8}},
		"repeats":               {answers: []seedAnswer{{batch: []*workload.Reservation{volume("7-1")}}, {batch: []*workload.Reservation{volume("3-1"), volume("7-1")}, after: time.Second}}, ids: []string{"7-1", "3-1", "7-1"}, from: []uint64{0, 8, 8}},
		"the largest number":    {answers: []seedAnswer{{batch: []*workload.Reservation{volume(last)}}, {batch: []*workload.Reservation{volume(last)}, after: time.Second}}, ids: []string{last, last}, from: []uint64{0, math.MaxUint64, math.MaxUint64}},
		"no reservation at all": {answers: []seedAnswer{{batch: []*workload.Reservation{nil, volume("../../x"), volume("1-1")}}}, ids: []string{"../../x", "1-1"}, from: []uint64{0, 2}},
		"an error with a batch": {answers: []seedAnswer{{batch: []*workload.Reservation{volume("4-1")}, err: errors.New("away")}}, ids: []string{"4-1"}, from: []uint64{0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &seedStore{answers: tt.answers}
				if ids := poll(t, store, len(tt.ids)); !slices.Equal(ids, tt.ids) {
					t.Fatalf("yields %v, want %v", ids, tt.ids)
				}
				if got := store.from(); !slices.Equal(got, tt.from) {
					t.Fatalf("asked from %v, want %v", got, tt.from)
				}
			})
		})
	}
}

// The seed's cursor overflowed at the largest number, and polled from 0 again.
func TestSeedDefect17TheCursorNeverWraps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		batch := []*workload.Reservation{volume(fmt.Sprintf("%d-1", uint64(math.MaxUint64)))}
		store := &seedStore{answers: []seedAnswer{{batch: batch}, {batch: batch, after: time.Second}, {batch: batch, after: time.Second}}}
		poll(t, store, 3)
		time.Sleep(time.Minute)
		for i, from := range store.from() {
			if i > 0 && from != math.MaxUint64 {
				t.Fatalf("poll %d asks from %d", i, from)
			}
		}
	})
}

func TestSeedPollYieldsLastPageBeforeEOS(t *testing.T) {
	for name, eos := range map[string]error{"plain": workload.ErrPollEOS, "wrapped": pkgerrors.Wrap(workload.ErrPollEOS, "poll")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &seedStore{answers: []seedAnswer{{batch: []*workload.Reservation{volume("1-1"), volume("2-1")}, err: eos}}}
				ids := poll(t, store, 3)
				if !slices.Equal(ids, []string{"1-1", "2-1", "closed"}) {
					t.Fatalf("yields %v, want both and the end", ids)
				}
			})
		})
	}
}

func TestSeedPollDoesNotSpin(t *testing.T) {
	for name, answer := range map[string]seedAnswer{
		"on errors":        {err: errors.New("away")},
		"on empty answers": {},
		"on old news":      {batch: []*workload.Reservation{volume(fmt.Sprintf("%d-1", uint64(math.MaxUint64)))}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &seedStore{hang: make(chan struct{})}
				defer close(store.hang)
				for range 5000 {
					store.answers = append(store.answers, answer)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
				defer cancel()
				for range source.Poll(store, workload.StrIdentifier("node"), zerolog.Nop()).Reservations(ctx) {
					continue
				}
				if n := len(store.from()); n < 5 || n > 1300 {
					t.Fatalf("polled %d times in 10 minutes", n)
				}
			})
		})
	}
}

func TestSeedPollEndsWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &seedStore{hang: make(chan struct{})} // a server that never answers
		ctx, cancel := context.WithCancel(context.Background())
		items := source.Poll(store, workload.StrIdentifier("node"), zerolog.Nop()).Reservations(ctx)
		time.Sleep(time.Minute)
		cancel()
		start := time.Now()
		if _, open := <-items; open || time.Since(start) > time.Second {
			t.Fatalf("open %t after %s", open, time.Since(start))
		}
		close(store.hang)
	})
}

// expirer always returns the same expired reservations.
type expirer struct{ err error }

func (e *expirer) GetExpired() ([]*workload.Reservation, error) {
	return []*workload.Reservation{volume("1-1"), nil}, e.err
}

func TestDecommissionYieldsExpiredReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		items := source.Decommission(&expirer{}, zerolog.Nop()).Reservations(ctx)
		start := time.Now()
		for range 3 {
			if r := <-items; r.ID != "1-1" {
				t.Fatalf("yields %s", r.ID)
			}
		}
		if took := time.Since(start); took < 5*time.Second || took > 20*time.Second {
			t.Fatalf("three looks took %s", took)
		}
		cancel()
		if _, open := <-items; open {
			t.Fatal("yields after the end")
		}
	})
}
