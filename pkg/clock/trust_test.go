package clock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// book keeps marks, as the store does.
type book struct {
	mu    sync.Mutex
	marks []clock.Mark
	fail  error
}

func (b *book) record(m clock.Mark) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return b.fail
	}
	b.marks = append(b.marks, m)
	return nil
}

func (b *book) all() []clock.Mark {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]clock.Mark(nil), b.marks...)
}

type node struct {
	*clock.Trust
	fake *clock.Fake
	book *book
	ntp  bool
}

func newNode(t *testing.T, wall time.Time, last clock.Mark) *node {
	t.Helper()
	n := &node{fake: clock.NewFake(wall), book: &book{}}
	trust, err := clock.New(clock.Config{
		Clock: n.fake, Synced: func() bool { return n.ntp }, BootID: "boot", Last: last, Record: n.book.record,
		Build: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Trust = trust
	return n
}

// running runs f while the node watches its clocks.
func (n *node) running(t *testing.T, f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	synctest.Wait()
	f()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// pass lets time pass in looks of ten seconds.
func (n *node) pass(d time.Duration) {
	for ; d > 0; d -= 10 * time.Second {
		n.fake.Advance(10 * time.Second)
		synctest.Wait()
	}
}

func start() time.Time { return time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC) }

// Trusted times are recorded at once, then every hour, and at the end.
func TestTrustedTimesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, start(), clock.Mark{})
		n.running(t, func() { n.pass(150 * time.Minute) })
		var after []time.Duration
		for _, m := range n.book.all() {
			after = append(after, m.Time.Sub(start()))
			if m.BootID != "boot" || m.Boot-time.Minute != m.Time.Sub(start()) {
				t.Errorf("mark %+v", m)
			}
		}
		want := []time.Duration{0, time.Hour, 2 * time.Hour, 150 * time.Minute}
		if len(after) != len(want) {
			t.Fatalf("recorded after %v, want %v", after, want)
		}
		for i := range want {
			if after[i] != want[i] {
				t.Errorf("recorded after %v, want %v", after, want)
			}
		}
		if !n.Floor().Equal(start().Add(150 * time.Minute)) {
			t.Errorf("floor %s", n.Floor())
		}
	})
}

// While the clock is in doubt nothing is recorded; a trusted source may lower what was.
func TestOnlyTrustedTimesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		future := clock.Mark{Time: start().Add(365 * 24 * time.Hour), BootID: "earlier"}
		n := newNode(t, start(), future)
		n.running(t, func() {
			n.pass(2 * time.Hour)
			if _, trusted := n.Now(); trusted || len(n.book.all()) != 0 {
				t.Errorf("trusted %v, recorded %v", trusted, n.book.all())
			}
			if v := n.Verdict(); v.Trusted || v.Removable || v.Why == "" {
				t.Errorf("verdict %+v", v)
			}
			n.ntp = true
			n.pass(time.Minute)
			if all := n.book.all(); len(all) != 1 || !all[0].Time.Before(future.Time) {
				t.Errorf("recorded %v, want one earlier than %s", all, future.Time)
			}
			n.ntp = false
			n.fake.Jump(365 * 24 * time.Hour)
			n.pass(2 * time.Hour)
			if all := n.book.all(); len(all) != 1 {
				t.Errorf("a time after the jump was recorded: %v", all)
			}
		})
		if all := n.book.all(); len(all) != 1 {
			t.Errorf("at the end a time in doubt was recorded: %v", all)
		}
	})
}

// A jump is noticed by the question itself, not by the next look.
func TestAJumpIsNoticedAtOnce(t *testing.T) {
	for _, jump := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour, time.Unix(0, 0).Sub(start())} {
		n := newNode(t, start(), clock.Mark{})
		if now, trusted := n.Now(); !trusted || !now.Equal(start()) {
			t.Fatalf("%s, trusted %v", now, trusted)
		}
		if !n.Removable() {
			t.Error("a clock that runs can't remove")
		}
		n.fake.Jump(jump)
		if _, trusted := n.Now(); trusted {
			t.Errorf("trusted after a jump of %s", jump)
		}
		if n.Removable() {
			t.Errorf("data may be removed after a jump of %s", jump)
		}
	}
}

// The explorer's answers make the time, not the machine's removal of data.
func TestExplorerIsHeard(t *testing.T) {
	n := newNode(t, time.Unix(0, 0), clock.Mark{Time: start().Add(-time.Hour), BootID: "earlier"})
	n.Hear(time.Time{})
	for i := range 4 {
		if _, trusted := n.Now(); trusted {
			t.Fatalf("trusted after %d answers", i)
		}
		n.Hear(start().Add(time.Duration(i) * 25 * time.Second))
		n.fake.Advance(25 * time.Second)
	}
	now, trusted := n.Now()
	if !trusted || !now.Equal(start().Add(100*time.Second)) || n.Removable() {
		t.Errorf("%s, trusted %v, removable %v", now, trusted, n.Removable())
	}
	if v := n.Verdict(); v.Source != clock.Explorer {
		t.Errorf("verdict %+v", v)
	}
}

// A store that can't record doesn't stop the clock; it is tried again.
func TestRecordingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, start(), clock.Mark{})
		n.book.fail = errors.New("no space")
		n.running(t, func() {
			n.pass(time.Minute)
			n.book.mu.Lock()
			n.book.fail = nil
			n.book.mu.Unlock()
			n.pass(10 * time.Second)
			if len(n.book.all()) != 1 {
				t.Errorf("recorded %v", n.book.all())
			}
		})
	})
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := clock.New(clock.Config{}); err == nil {
		t.Error("an empty config is accepted")
	}
}

// The machine's own clocks, as they are.
func TestSystem(t *testing.T) {
	var c clock.System
	wall, boot := c.Now(), c.Boot()
	<-c.After(10 * time.Millisecond)
	timer := c.NewTimer(time.Hour)
	if !timer.Stop() {
		t.Error("a timer of an hour fired")
	}
	if d := c.Boot() - boot; d < 10*time.Millisecond || d > time.Minute {
		t.Errorf("10 ms are %s since boot", d)
	}
	if d := c.Now().Sub(wall); d < time.Millisecond || d > time.Minute {
		t.Errorf("10 ms are %s on the wall", d)
	}
	if id, err := clock.BootID(); err != nil || len(id) != 36 {
		t.Errorf("boot ID %q, %v", id, err)
	}
	_ = clock.Synced() // either answer is right; it must not fail
}

func TestFakeTimers(t *testing.T) {
	f := clock.NewFake(start())
	a, b, now := f.NewTimer(time.Minute), f.NewTimer(time.Hour), f.After(0)
	select {
	case <-now:
	default:
		t.Error("a timer of 0 hasn't fired")
	}
	if f.Waiting() != 2 {
		t.Errorf("%d timers wait", f.Waiting())
	}
	f.Jump(2 * time.Hour)
	f.Advance(time.Minute)
	select {
	case at := <-a.C():
		if !at.Equal(start().Add(2*time.Hour + time.Minute)) {
			t.Errorf("fired at %s", at)
		}
	default:
		t.Error("a minute's timer hasn't fired after a minute")
	}
	select {
	case <-b.C():
		t.Error("a jump of the wall clock fired a timer")
	default:
	}
	if !b.Stop() || b.Stop() || a.Stop() || f.Waiting() != 0 {
		t.Error("stopping")
	}
}
