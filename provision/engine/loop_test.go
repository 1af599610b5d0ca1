package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/admit"
)

// deafAdmission doesn't answer before it is released, whatever its deadline.
type deafAdmission struct {
	Admission
	asked atomic.Int32
	let   chan struct{}
}

func (d *deafAdmission) Offer(context.Context) (admit.Offer, error) {
	d.asked.Add(1)
	<-d.let
	return admit.Offer{}, nil
}

// A hanging module is asked for the node's offer once, not again for each waiting
// record: each call that hangs is a goroutine.
func TestAnOfferThatHangsIsAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := &deafAdmission{let: make(chan struct{})}
		parts := &Config{Admission: deaf, Log: zerolog.Nop(), Clock: wallClock{}}
		e := Assemble(parts)
		l := e.loop(t.Context(), t.Context())
		for range 5 {
			l.askOffer()
			if o := <-l.offers; node.KindOf(o.err) != node.Transient {
				t.Errorf("an offer that doesn't come is %v", o.err)
			}
		}
		if n := deaf.asked.Load(); n != 1 {
			t.Errorf("asked %d times at once, want once", n)
		}
		close(deaf.let)
		synctest.Wait()
		l.askOffer()
		began := time.Now()
		if o := <-l.offers; o.err != nil || deaf.asked.Load() != 2 || time.Since(began) > 0 {
			t.Errorf("once it answers again: %v, asked %d times", o.err, deaf.asked.Load())
		}
	})
}
