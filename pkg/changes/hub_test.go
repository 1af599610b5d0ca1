package changes_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/changes"
	"github.com/croft-edge/croft/pkg/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// streaming runs test on a new hub's stream, in virtual time.
func streaming(t *testing.T, test func(t *testing.T, h *changes.Hub, in <-chan node.Change)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := changes.New()
		in := h.Changes(ctx)
		test(t, h, in)
		cancel()
		for range in {
		}
	})
}

func TestTheFirstValueComesAtOnceAndThenSignsOfLife(t *testing.T) {
	streaming(t, func(t *testing.T, _ *changes.Hub, in <-chan node.Change) {
		start := time.Now()
		first := <-in
		if time.Since(start) != 0 || first.Number != 1 || !first.Lost || len(first.IDs) != 0 {
			t.Fatalf("after %s came %+v", time.Since(start), first)
		}
		for n := uint64(2); n < 10; n++ {
			before := time.Now()
			next := <-in
			if took := time.Since(before); took > node.ChangesEvery || next.Number != n || next.Stream != first.Stream || next.Lost || len(next.IDs) != 0 {
				t.Fatalf("after %s came %+v", took, next)
			}
		}
	})
}

func TestABurstIsFewValues(t *testing.T) {
	streaming(t, func(t *testing.T, h *changes.Hub, in <-chan node.Change) {
		<-in
		for range 1000 {
			h.Tell("1-1")
		}
		h.Tell("2-1", "zdb-ssd0", "", "1-01")
		start := time.Now()
		got := <-in
		if !slices.Equal(got.IDs, []string{"1-1", "2-1"}) || got.Lost || time.Since(start) > 100*time.Millisecond {
			t.Fatalf("after %s came %+v", time.Since(start), got)
		}
		if next := <-in; len(next.IDs) != 0 || next.Number != got.Number+1 {
			t.Fatalf("then came %+v", next)
		}
	})
}

// A reader that doesn't read costs a bounded set, and is told Lost.
func TestASlowReaderGetsLost(t *testing.T) {
	streaming(t, func(t *testing.T, h *changes.Hub, in <-chan node.Change) {
		<-in
		h.Tell("1-1")
		time.Sleep(time.Minute) // that value waits to be read
		for n := range 100 * node.ChangesMost {
			h.Tell(fmt.Sprintf("%d-2", n+1))
		}
		if one := <-in; !slices.Equal(one.IDs, []string{"1-1"}) || one.Lost {
			t.Fatalf("the waiting value is %+v", one)
		}
		if all := <-in; len(all.IDs) != 0 || !all.Lost {
			t.Fatalf("then came %d IDs, lost %t", len(all.IDs), all.Lost)
		}
		h.Tell("3-1")
		if next := <-in; !slices.Equal(next.IDs, []string{"3-1"}) || next.Lost {
			t.Fatalf("after that came %+v", next)
		}
	})
}

func TestAsManyIDsAsAValueHolds(t *testing.T) {
	streaming(t, func(t *testing.T, h *changes.Hub, in <-chan node.Change) {
		<-in
		for n := range node.ChangesMost {
			h.Tell(fmt.Sprintf("%d-2", n+1))
		}
		if all := <-in; len(all.IDs) != node.ChangesMost || all.Lost {
			t.Fatalf("came %d IDs, lost %t", len(all.IDs), all.Lost)
		}
	})
}

func TestEachReaderHasAStreamOfItsOwn(t *testing.T) {
	streaming(t, func(t *testing.T, h *changes.Hub, in <-chan node.Change) {
		one := <-in
		ctx, cancel := context.WithCancel(t.Context())
		other := h.Changes(ctx)
		if first := <-other; first.Stream == one.Stream || first.Number != 1 || !first.Lost {
			t.Fatalf("the other's first value is %+v", first)
		}
		h.Lost()
		for name, from := range map[string]<-chan node.Change{"one": in, "other": other} {
			if got := <-from; !got.Lost {
				t.Errorf("%s got %+v", name, got)
			}
		}
		cancel()
		for range other {
		}
		h.Tell("1-1")
		if got := <-in; !slices.Equal(got.IDs, []string{"1-1"}) {
			t.Errorf("after the other has left came %+v", got)
		}
	})
}
