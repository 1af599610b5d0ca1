//go:build boot

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// year is long enough for a battery's clock to be plainly wrong.
const year = 365 * 24 * time.Hour

// longerThanItRuns is longer than the machine runs before it knows the time: what has run for its duration has ended, by any clock.
const longerThanItRuns = 6 * time.Minute

// TestOffline has a machine lose its power and its network, and its battery's clock be years off: it brings back every workload with its cable out. What
// has ended meanwhile stays until the time is known, and goes then, without an explorer.
func TestOffline(t *testing.T) {
	s := newSite(t)
	st := newStory(s, options{boot: direct(t)})
	st.begin()
	st.p.note("before the power cut")
	expired := st.Expiring(longerThanItRuns, func(d time.Duration) *workload.Reservation { return st.Push(st.volume(st.n, d)) })
	st.n.settled(st.with("volume", 2))
	st.n.hand.sync()
	st.n.m.Cut(st.random)
	s.cutOff()
	if left := time.Until(expired.Expires()); left > 0 {
		st.Logf("the machine stays off for %s, until a reservation has ended", left.Round(time.Second))
		<-time.After(left)
	}

	st.bootAlone(10 * year)
	st.n.m.Cut(st.random)
	st.bootAlone(-6 * year)
	plugged := time.Now()
	st.n.m.SetLink(true)
	st.n.agent()
	st.p.answers()
	st.ranBefore(plugged)
	st.p.noted("before the power cut")
	runs := st.running()
	is := st.n.settled(st.with("volume", 2))
	if is.Clock.Trusted {
		st.Errorf("the clock is trusted though it is years off: %+v", is.Clock)
	}

	if ran := time.Duration(is.Clock.Uptime) * time.Second; ran > longerThanItRuns {
		st.Fatalf("the machine has run for %s: what ends after %s may have ended by that", ran, longerThanItRuns)
	}
	st.startClock()
	st.until("what has ended is gone once the time is known", func() error {
		is, err := st.n.hand.status()
		if err == nil && (!is.Clock.Trusted || is.Counters.Volume != 1) {
			err = fmt.Errorf("the clock is %+v, it has %d volumes", is.Clock, is.Counters.Volume)
		}
		return err
	})
	st.StartExplorer()
	st.Result(expired, workload.StateExpired)
	st.n.settled(st.counts)
	if now := st.running(); now != runs {
		st.Errorf("the return of the time and of the explorer has restarted the workloads: they were %s, they are %s", runs, now)
	}
	st.p.answers()
	st.end()
}

// bootAlone switches the machine on with its cable out and its battery's clock off by that much, until its console shows all workloads.
func (st *story) bootAlone(off time.Duration) {
	st.Helper()
	st.n.m.SetTime(func() time.Time { return time.Now().Add(off) })
	began := time.Now()
	st.n.m.PowerOn()
	st.n.m.SetLink(false)
	st.n.m.Until(patience, "the node is ready")
	st.n.m.Until(patience, "1 container  2 volumes  1 network  1 zdb")
	st.n.m.Until(patience, "the clock isn't trusted")
	for _, program := range []string{"server", "zdb"} {
		st.n.m.Until(patience, "croft test agent: "+program+" runs")
	}
	st.Logf("without a network and with a clock that is off by %s all workloads run after %s", off, since(began))
}

// ticks are a second of a process's start.
const ticks = 100

// ranBefore holds that the container and zdb have run since before a time.
func (st *story) ranBefore(at time.Time) {
	st.Helper()
	up := st.n.hand.uptime() - time.Since(at)
	for _, program := range []string{"server", "zdb"} {
		p, _ := st.n.hand.the(program)
		started := time.Duration(p.Start) * time.Second / ticks
		st.Logf("%s runs since %s after the kernel's start; the cable was plugged in at %s", program, started, up.Round(time.Second))
		if started == 0 || started > up {
			st.Errorf("%s has waited for the network", program)
		}
	}
}
