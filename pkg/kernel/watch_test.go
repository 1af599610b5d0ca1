package kernel_test

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/kernel"
	"github.com/croft-edge/croft/pkg/node"
)

// tried is a feature that counts its tries.
type tried struct {
	err   atomic.Pointer[error]
	count atomic.Int32
}

func (f *tried) set(err error) { f.err.Store(&err) }

func (f *tried) try(context.Context) error {
	f.count.Add(1)
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

func lacks(t *testing.T, w *kernel.Watch) node.KernelState {
	t.Helper()
	is, err := w.Lacks()
	if err != nil {
		t.Fatal(err)
	}
	return is
}

func run(ctx context.Context, w *kernel.Watch) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return ended
}

// What is lacking is tried again until it is there, what is there isn't.
func TestFeatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there, gone, slow, unknown := &tried{}, &tried{}, &tried{}, &tried{}
		unknown.set(kernel.Unknown(errors.New("nobody answers")))
		gone.set(errors.New("no such thing"))
		slow.set(errors.New("in another way"))
		w := kernel.NewWatch("x", []kernel.Feature{
			{Name: "there", Try: there.try},
			{Name: "gone", Effect: "nothing works", Try: gone.try},
			{Name: "unknown", Try: unknown.try},
			{Name: "slow", Effect: "all is slow", Degraded: true, Try: slow.try},
		}, zerolog.Nop())
		if is := lacks(t, w); is.Tried || len(is.Lacks) != 0 {
			t.Errorf("before it is tried: %+v", is)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := run(ctx, w)
		synctest.Wait()
		want := node.KernelState{Tried: true, Lacks: []node.KernelLack{
			{Feature: "gone", State: node.KernelMissing, Why: "no such thing", Effect: "nothing works"},
			{Feature: "slow", State: node.KernelDegraded, Why: "in another way", Effect: "all is slow"},
		}}
		if is := lacks(t, w); !reflect.DeepEqual(is, want) {
			t.Errorf("%+v, want %+v", is, want)
		}
		gone.set(nil)
		time.Sleep(2 * kernel.Every)
		if is := lacks(t, w); len(is.Lacks) != 1 || is.Lacks[0].Feature != "slow" {
			t.Errorf("once it is loaded: %+v", is)
		}
		slow.set(nil)
		unknown.set(nil)
		time.Sleep(2 * kernel.Every)
		before := slow.count.Load()
		time.Sleep(24 * time.Hour)
		if is := lacks(t, w); len(is.Lacks) != 0 || !is.Tried {
			t.Errorf("once all is there: %+v", is)
		}
		if n := unknown.count.Load(); n < 3 || n > 6 {
			t.Errorf("what isn't known was tried %d times", n)
		}
		if there.count.Load() != 1 || slow.count.Load() != before {
			t.Errorf("what is there was tried %d and %d times again", there.count.Load()-1, slow.count.Load()-before)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A try that hangs holds nobody up, counts as lacking, and isn't made again beside itself.
func TestTryThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		var hangs, after tried
		after.set(errors.New("lacking"))
		w := kernel.NewWatch("x", []kernel.Feature{
			{Name: "hangs", Try: func(ctx context.Context) error {
				_ = hangs.try(ctx)
				<-let
				return nil
			}},
			{Name: "panics", Try: func(context.Context) error { panic("a try that panics") }},
			{Name: "after", Try: after.try},
		}, zerolog.Nop())
		ctx, cancel := context.WithCancel(t.Context())
		ended := run(ctx, w)
		time.Sleep(time.Minute)
		is := lacks(t, w)
		if !is.Tried || len(is.Lacks) != 3 || is.Lacks[0].Why != "trying it doesn't end within 10s" {
			t.Errorf("%+v", is)
		}
		time.Sleep(time.Hour)
		if n := hangs.count.Load(); n != 1 || after.count.Load() < 8 {
			t.Errorf("the one that hangs was tried %d times, the one after it %d times", n, after.count.Load())
		}
		close(let)
		time.Sleep(2 * kernel.Every)
		if is := lacks(t, w); len(is.Lacks) != 2 {
			t.Errorf("once it ends: %+v", is)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Who stops while a try hangs doesn't wait for it.
func TestStopWhileATryHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		w := kernel.NewWatch("x", []kernel.Feature{{Name: "hangs", Try: func(context.Context) error { <-let; return nil }}}, zerolog.Nop())
		ctx, cancel := context.WithCancel(t.Context())
		ended := run(ctx, w)
		time.Sleep(time.Second)
		began := time.Now()
		cancel()
		if err := <-ended; err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if is := lacks(t, w); is.Tried || len(is.Lacks) != 0 {
			t.Errorf("%+v", is)
		}
		close(let)
	})
}
