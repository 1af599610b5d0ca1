package network

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mended atomic.Int32
		var ended atomic.Pointer[chan struct{}]
		w := newWatcher(time.Minute, func() <-chan struct{} {
			if c := ended.Load(); c != nil {
				return *c
			}
			return nil
		}, func() {
			mended.Add(1)
			ended.Store(nil)
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.run(ctx) }()
		time.Sleep(90 * time.Second)
		if n := mended.Load(); n != 1 {
			t.Errorf("mended %d times in 90 s, want once", n)
		}
		carrier := make(chan struct{})
		ended.Store(&carrier)
		w.wake()
		w.wake()
		synctest.Wait()
		close(carrier)
		synctest.Wait()
		if n := mended.Load(); n != 2 {
			t.Errorf("mended %d times after the carrier's end, want 2", n)
		}
		cancel()
		<-done
	})
}
