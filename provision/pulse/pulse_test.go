package pulse_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-edge/croft/provision/pulse"
)

// worker is a thread that does what it is given.
func worker(t *testing.T) (*pulse.Pulse, chan<- func()) {
	p, work := pulse.New("it"), make(chan func())
	t.Cleanup(func() { close(work) })
	go func() {
		p.Left()
		for {
			p.Back()
			select {
			case do, open := <-work:
				if !open {
					return
				}
				p.Left()
				do()
			case <-p.Asked():
			}
		}
	}()
	return p, work
}

func TestThreadThatStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, work := worker(t)
		check := func(want string) {
			t.Helper()
			began := time.Now()
			err := p.Check(t.Context(), time.Minute)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("it is %v, want %q", err, want)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("the answer took %s", took)
			}
		}
		check("")
		time.Sleep(24 * time.Hour) // idle, and not asked
		check("")
		let := make(chan struct{})
		work <- func() { <-let }
		check("")
		time.Sleep(58 * time.Second)
		check("")
		time.Sleep(2 * time.Second)
		check("cannot go on with it: its thread has been at one step for 1m3s, at most 1m0s are allowed")
		close(let)
		check("")
		// A long turn of short steps is no fault.
		work <- func() {
			for range 10 {
				time.Sleep(50 * time.Second)
				p.Moved()
			}
		}
		for range 17 {
			time.Sleep(30 * time.Second)
			check("")
		}
	})
}

// What a thread that panics and is started again stands at begins before.
func TestThreadThatIsStartedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pulse.New("it")
		for range 4 {
			p.Left()
			time.Sleep(20 * time.Second)
		}
		if err := p.Check(t.Context(), time.Minute); err == nil {
			t.Error("a thread that never waits for things to do counts as one that turns")
		}
		p.Moved()
		if err := p.Check(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// Who asks and goes away gets an answer at once.
func TestAskerThatGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := pulse.New("it"), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Check(ctx, time.Minute); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		p.Moved() // before it has begun
		time.Sleep(time.Hour)
		if err := p.Check(t.Context(), time.Minute); err != nil {
			t.Errorf("a thread that hasn't begun: %v", err)
		}
	})
}
