package clock_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// book records marks, like the store.
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

func (b *book) last() clock.Mark {
	all := b.all()
	return all[len(all)-1]
}

type node struct {
	*clock.Trust
	fake *clock.Fake
	book *book
	ntp  bool
	// trusting is whether the operator trusts the explorer's clock.
	trusting bool
	bootID   string
}

func newNode(t *testing.T, wall time.Time, last clock.Mark) *node {
	t.Helper()
	return restarted(t, &node{fake: clock.NewFake(wall), book: &book{}}, last)
}

// restarted is the node after its agent was started again from a mark.
func restarted(t *testing.T, n *node, last clock.Mark) *node {
	t.Helper()
	trust, err := clock.New(clock.Config{
		Clock: n.fake, Synced: func() bool { return n.ntp }, BootID: cmp.Or(n.bootID, "boot"), Last: last, Record: n.book.record, TrustExplorer: n.trusting,
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

// hears gives that many of the explorer's answers, off by that much, every 30 seconds.
func (n *node) hears(off time.Duration, times int) {
	for range times {
		n.fake.Advance(30 * time.Second)
		n.Hear(start().Add(n.fake.Boot() - time.Minute + off))
	}
}

// pass lets time pass in steps of ten seconds.
func (n *node) pass(d time.Duration) {
	for ; d > 0; d -= 10 * time.Second {
		n.fake.Advance(10 * time.Second)
		synctest.Wait()
	}
}

func start() time.Time { return time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC) }

// Times are recorded at once, then every ten minutes, and at the end.
func TestTimesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, start(), clock.Mark{})
		n.running(t, func() { n.pass(25 * time.Minute) })
		var after []time.Duration
		for _, m := range n.book.all() {
			after = append(after, m.Time.Sub(start()))
			want := clock.Mark{
				Time: m.Time, Boot: m.Time.Sub(start()) + time.Minute, BootID: "boot", Source: clock.Start,
				Uptime: clock.Uptime{Total: m.Boot, Boot: m.Boot, BootID: "boot"},
			}
			if m != want {
				t.Errorf("mark %+v, want %+v", m, want)
			}
		}
		if want := []time.Duration{0, 10 * time.Minute, 20 * time.Minute, 25 * time.Minute}; !slices.Equal(after, want) {
			t.Fatalf("recorded after %v, want %v", after, want)
		}
	})
}

// While the clock is in doubt the uptime is recorded, and the last trusted time
// stays unchanged; a source outside the machine may lower it.
func TestOnlyTrustedTimesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		future := clock.Mark{
			Time: start().Add(365 * 24 * time.Hour), Boot: time.Hour, BootID: "earlier", Source: clock.Start,
			Uptime: clock.Uptime{Total: 100 * time.Hour, Boot: time.Hour, BootID: "earlier"},
		}
		n := newNode(t, start(), future)
		untouched := func(m, last clock.Mark) {
			t.Helper()
			up := m.Uptime
			if m.Uptime, m.Floor = last.Uptime, last.Floor; m != last {
				t.Errorf("recorded %+v, the last trusted is %+v", m, last)
			}
			if want := n.fake.Boot() + 100*time.Hour; (want-up.Total).Abs() > 10*time.Minute || up.BootID != "boot" {
				t.Errorf("an uptime of %+v, want %s", up, want)
			}
		}
		n.running(t, func() {
			n.pass(2 * time.Hour)
			if _, trusted := n.Now(); trusted {
				t.Error("trusted")
			}
			if v := n.Verdict(); v.Level != clock.None || v.Why == "" || v.Uptime != n.fake.Boot()+100*time.Hour {
				t.Errorf("verdict %+v", v)
			}
			untouched(n.book.last(), future)
			n.ntp = true
			n.pass(time.Minute)
			synced := n.book.last()
			if !synced.Time.Before(future.Time) || synced.Source != clock.NTP || !synced.Floor.Equal(synced.Time) {
				t.Errorf("recorded %+v, want one of NTP and earlier than %s", synced, future.Time)
			}
			n.ntp = false
			n.fake.Jump(365 * 24 * time.Hour)
			n.pass(2 * time.Hour)
			untouched(n.book.last(), synced)
		})
		if m := n.book.last(); m.Source != clock.NTP || m.Uptime.Boot != n.fake.Boot() {
			t.Errorf("at the end %+v was recorded", m)
		}
	})
}

// The request itself notices a jump, before the next periodic reading.
func TestAJumpIsNoticedAtOnce(t *testing.T) {
	for _, jump := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour, time.Unix(0, 0).Sub(start())} {
		n := newNode(t, start(), clock.Mark{})
		if now, trusted := n.Now(); !trusted || !now.Equal(start()) {
			t.Fatalf("%s, trusted %v", now, trusted)
		}
		n.fake.Jump(jump)
		if _, trusted := n.Now(); trusted {
			t.Errorf("trusted after a jump of %s", jump)
		}
	}
}

// The explorer's answers set the time, and don't allow removal of data.
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
	if !trusted || !now.Equal(start().Add(100*time.Second)) || n.Read().Level == clock.Remove {
		t.Errorf("%s, trusted %v, removable %v", now, trusted, n.Read().Level == clock.Remove)
	}
	if v := n.Verdict(); v.Source != clock.Explorer || v.Level != clock.Stop {
		t.Errorf("verdict %+v", v)
	}
	if now, vouched := n.Vouched(); vouched || !n.Floor().IsZero() {
		t.Errorf("%s is vouched for: %v, floor %s", now, vouched, n.Floor())
	}
}

// deadBattery is the mark of a machine whose clock is in 1970 after a reboot.
func deadBattery() clock.Mark {
	return clock.Mark{Time: start().Add(-time.Hour), BootID: "earlier", Source: clock.Start}
}

// The explorer's time stays of that source: after the agent's restart, after a
// reboot, with a wall clock that agrees with it or doesn't.
func TestExplorersWordStaysItsWord(t *testing.T) {
	for _, wall := range []time.Time{time.Unix(0, 0), start()} {
		n := newNode(t, time.Unix(0, 0), deadBattery())
		synctest.Test(t, func(t *testing.T) {
			n.running(t, func() { n.hears(0, 4); n.pass(10 * time.Second) })
		})
		mark := n.book.last()
		if mark.Source != clock.Explorer || mark.Vouched() {
			t.Fatalf("recorded %+v", mark)
		}
		n = restarted(t, n, mark)
		if r := n.Read(); r.Level != clock.Stop || r.Now.Sub(start()).Abs() > 5*time.Minute {
			t.Errorf("after a restart of the agent: %+v", r)
		}
		n.fake.Jump(wall.Sub(n.fake.Now()))
		for days := range 30 {
			n = restarted(t, n, mark)
			if n.hears(0, 3); n.Read().Level != clock.Stop {
				t.Fatalf("after %d days and restarts: %+v", days, n.Verdict())
			}
			n.fake.Advance(24 * time.Hour)
		}
		mark.BootID, mark.Uptime.BootID = "another", "another"
		n = restarted(t, n, mark)
		if v := n.Verdict(); v.Level != clock.None {
			t.Errorf("after a reboot, before the explorer has answered: %+v", v)
		}
		if n.hears(0, 3); n.Read().Level != clock.Stop {
			t.Errorf("after a reboot: %+v", n.Verdict())
		}
	}
}

// Eight honest days, then answers that walk ahead by just the allowed difference
// from the one before: it came 119 hours ahead in 36, and data could be removed by it.
func TestHonestDaysAreNoCredit(t *testing.T) {
	n := newNode(t, time.Unix(0, 0), deadBattery())
	n.hears(0, 8*24*120)
	ahead, most := time.Duration(0), time.Duration(0)
	for range 36 * 30 {
		ahead += 4 * time.Minute
		n.fake.Advance(90 * time.Second)
		n.hears(ahead, 1)
		r := n.Read()
		if r.Level == clock.Remove {
			t.Fatalf("data may be removed, %s ahead", ahead)
		}
		if off := r.Now.Sub(start().Add(n.fake.Boot() - time.Minute)); r.Level == clock.Stop {
			most = max(most, off)
		}
	}
	if most > 5*time.Minute || ahead < 70*time.Hour {
		t.Errorf("the explorer's clock went %s ahead, and took the node's along by %s", ahead, most)
	}
}

// An operator may name the explorer as a trusted clock, and take that back.
func TestTrustedExplorer(t *testing.T) {
	n := newNode(t, time.Unix(0, 0), deadBattery())
	n.trusting = true
	n = restarted(t, n, deadBattery())
	synctest.Test(t, func(t *testing.T) {
		n.running(t, func() { n.hears(0, 4); n.pass(10 * time.Second) })
	})
	mark := n.book.last()
	v := n.Verdict()
	if _, vouched := n.Vouched(); v.Level != clock.Remove || v.Source != clock.TrustedExplorer || !vouched || !mark.Vouched() {
		t.Errorf("%+v, recorded %+v", v, mark)
	}
	if floor := n.Floor(); floor.IsZero() || floor.After(v.Now) {
		t.Errorf("floor %s", floor)
	}
	if n = restarted(t, n, mark); n.Read().Level != clock.Remove {
		t.Errorf("after a restart: %+v", n.Verdict())
	}
	n.trusting = false
	if n = restarted(t, n, mark); n.Read().Level != clock.Stop {
		t.Errorf("after the setting was taken back: %+v", n.Verdict())
	}
}

// A restart of the agent doesn't revive trust in a word that was taken back.
func TestARestartDoesNotBringBackTheWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, time.Unix(0, 0), deadBattery())
		n.running(t, func() {
			n.hears(0, 4)
			n.pass(10 * time.Second)
			n.hears(time.Hour, 1)
			n.pass(10 * time.Second)
		})
		if n = restarted(t, n, n.book.last()); n.Read().Level != clock.None {
			t.Errorf("after a restart: %+v", n.Verdict())
		}
	})
}

// Restarts of the agent don't prolong the holdover of a clock that NTP has left.
func TestRestartsDoNotProlongTheHoldover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, start(), clock.Mark{})
		n.ntp = true
		n.running(t, func() { n.pass(time.Minute) })
		n.ntp = false
		for range 2 {
			if n = restarted(t, n, n.book.last()); n.Read().Level != clock.Remove {
				t.Fatalf("%s after NTP: %+v", n.fake.Boot()-2*time.Minute, n.Verdict())
			}
			n.running(t, func() { n.fake.Advance(12 * time.Hour) })
		}
		n.fake.Advance(10 * time.Second)
		if n = restarted(t, n, n.book.last()); n.Read().Level != clock.Stop {
			t.Errorf("after a day and three restarts: %+v", n.Verdict())
		}
	})
}

// A time that has certainly passed: the last time of level Remove and the uptime
// since, through reboots, whatever the clock says then.
func TestFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, start(), clock.Mark{})
		if !n.Floor().IsZero() {
			t.Errorf("a clock that was only plausible at the start is certain: %s", n.Floor())
		}
		n.ntp = true
		n.running(t, func() { n.pass(20 * time.Minute) })
		if floor := n.Floor(); !floor.Equal(start().Add(20 * time.Minute)) {
			t.Errorf("floor %s", floor)
		}
		mark := n.book.last()
		n.ntp, n.fake, n.bootID = false, clock.NewFake(time.Unix(0, 0)), "next"
		n = restarted(t, n, mark)
		n.running(t, func() { n.pass(9 * time.Minute) })
		if floor := n.Floor(); !floor.Equal(start().Add(30*time.Minute)) || n.Read().Level != clock.None {
			t.Errorf("after a reboot the floor is %s, %+v", floor, n.Verdict())
		}
		n.fake, n.bootID = clock.NewFake(time.Unix(0, 0)), "third"
		n = restarted(t, n, n.book.last())
		if floor := n.Floor(); !floor.Equal(start().Add(31 * time.Minute)) {
			t.Errorf("after another reboot the floor is %s", floor)
		}
	})
}

// The store's marks are JSON; those from before sources and uptimes are read too.
func TestMarksAsJSON(t *testing.T) {
	var old clock.Mark
	text := `{"time":"2027-03-01T12:00:00Z","boot":60000000000,"boot_id":"b"}`
	if err := json.Unmarshal([]byte(text), &old); err != nil || old != (clock.Mark{Time: start(), Boot: time.Minute, BootID: "b"}) || old.Vouched() {
		t.Errorf("%+v, %v, vouched for: %v", old, err, old.Vouched())
	}
	if again, err := json.Marshal(old); err != nil || string(again) != text {
		t.Errorf("%s, %v", again, err)
	}
	whole := clock.Mark{
		Time: start(), Boot: 2, BootID: "b", Source: clock.NTP, Confirmed: 1, Floor: start(),
		Uptime: clock.Uptime{Total: 4, Boot: 3, BootID: "c"},
	}
	text = `{"time":"2027-03-01T12:00:00Z","boot":2,"boot_id":"b","source":"ntp","confirmed":1,` +
		`"uptime":{"total":4,"boot":3,"boot_id":"c"},"floor":"2027-03-01T12:00:00Z"}`
	var back clock.Mark
	written, err := json.Marshal(whole)
	if err != nil || string(written) != text {
		t.Errorf("%s, %v", written, err)
	}
	if err := json.Unmarshal(written, &back); err != nil || back != whole {
		t.Errorf("%+v, %v", back, err)
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
