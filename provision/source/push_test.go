package source_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/source"
)

func TestPushWaitsForHandling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := source.NewPush(zerolog.Nop())
		ctx, cancel := context.WithCancel(t.Context())
		items := p.Items(ctx)
		full := errors.New("the disk is full")
		for _, want := range []error{nil, full} {
			done := make(chan error, 1)
			go func() { done <- p.Push(t.Context(), volume("7-1")) }()
			i := <-items
			if i.Kind != source.Arrived || i.Reservation.ID != "7-1" {
				t.Errorf("item %+v", i)
			}
			synctest.Wait()
			if len(done) != 0 {
				t.Error("it didn't wait")
			}
			i.Finish(want)
			if err := <-done; !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		cancel()
		if _, open := <-items; open {
			t.Error("an item came after the end")
		}
	})
}

func TestAPushGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := source.NewPush(zerolog.Nop())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Push(ctx, volume("7-1")); node.KindOf(err) != node.Transient {
			t.Errorf("without an engine: %v", err)
		}
		items := p.Items(t.Context())
		ctx, cancel = context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Push(ctx, volume("7-1")) }()
		i := <-items
		cancel()
		if err := <-done; node.KindOf(err) != node.Transient {
			t.Errorf("while it is handled: %v", err)
		}
		i.Finish(nil) // it has no waiter, and nothing hangs
	})
}
