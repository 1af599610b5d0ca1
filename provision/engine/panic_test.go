package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
)

// panicsOnce is a feedback whose first kick panics, on the engine's thread.
type panicsOnce struct {
	noFeedback
	kicks atomic.Int32
}

func (p *panicsOnce) Kick() {
	if p.kicks.Add(1) == 1 {
		panic("a kick that panics")
	}
}

// slowly is a provisioner that takes its time, also to return after it is cancelled.
type slowly struct {
	idle
	now, most, done atomic.Int32
}

func (s *slowly) Provision(ctx context.Context, _ *workload.Reservation) (json.RawMessage, error) {
	if n := s.now.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	defer s.now.Add(-1)
	select {
	case <-time.After(20 * time.Second):
		s.done.Add(1)
		return nil, nil
	case <-ctx.Done():
		<-time.After(1900 * time.Millisecond)
		return nil, fmt.Errorf("cannot make it: %w", ctx.Err())
	}
}

// given yields some reservations, then nothing.
type given []*workload.Reservation

func (g given) Items(ctx context.Context) <-chan source.Item {
	out := make(chan source.Item)
	go func() {
		defer close(out)
		for _, r := range g {
			select {
			case out <- source.Item{Kind: source.Arrived, Reservation: r}:
			case <-ctx.Done():
				return
			}
		}
		<-ctx.Done()
	}()
	return out
}

// When the engine's thread panics, its effects in flight end before it restarts
// from the records: no effect runs twice at a time.
func TestEffectInFlightAtPanicRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := &simClock{now: time.Now(), level: clock.Remove}
		records, err := store.Open(store.Config{Disk: newSimDisk(), Clock: now, BirthClock: vouched{now}, NewNode: true})
		if err != nil {
			t.Fatal(err)
		}
		user, err := newSimUser("ann", true)
		if err != nil {
			t.Fatal(err)
		}
		reservation := func(id string, kind workload.Type) *workload.Reservation {
			return &workload.Reservation{ID: id, NodeID: user.id, User: user.id, Type: kind, Version: 2, Created: now.now, Duration: time.Hour, Data: json.RawMessage(`{}`)}
		}
		module := &slowly{}
		e, err := New(Config{
			Records: records, Policy: anyPolicy{}, Feedback: &panicsOnce{}, Clock: now, Log: zerolog.Nop(),
			Limits:       Limits{Drift: time.Hour},
			Sources:      []source.Source{given{reservation("1-1", workload.TypeDebug), reservation("2-1", workload.TypeVolume)}},
			Provisioners: map[workload.Type]provisioner.Provisioner{workload.TypeDebug: module},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if rec, err := records.Record("1-1"); err != nil || rec.Phase != lifecycle.Deployed || module.most.Load() != 1 || module.done.Load() != 1 {
			t.Errorf("it is %q (%v), was made %d at a time and %d times", rec.Phase, err, module.most.Load(), module.done.Load())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
