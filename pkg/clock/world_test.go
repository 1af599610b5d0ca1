package clock

import (
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"
)

// world is a machine with an agent on it, and the true time. It doesn't know
// how the agent decides.
type world struct {
	t     *rapid.T
	trust *Trust
	fake  *Fake
	disk  Mark
	// trusting is whether the operator trusts the explorer's clock.
	trusting bool
	// boots counts; nameless boots have no ID that the agent can read.
	boots    int
	nameless bool

	// started is when the node began to count its uptime, truth the true time.
	started, truth time.Time
	ntp            bool
	// synced is the time since boot at which NTP last kept the clock in this
	// boot, wrongThen the clock's error then; never means that it hasn't yet.
	synced    time.Duration
	wrongThen time.Duration
	never     bool
	// uptime is the last reading's.
	uptime time.Duration
}

// wrong is the wall clock's error.
func (w *world) wrong() time.Duration { return w.fake.Now().Sub(w.truth) }

// boot starts the machine after off, with that error of the wall clock.
func (w *world) boot(off, wrong time.Duration) {
	w.boots++
	w.truth = w.truth.Add(off + time.Minute) // the fake begins a minute after the boot
	w.fake = NewFake(w.truth.Add(wrong))
	w.never = true
	w.note()
	w.start()
}

// start starts the agent.
func (w *world) start() {
	id := fmt.Sprint("boot ", w.boots)
	if w.nameless {
		id = ""
	}
	trust, err := New(Config{
		Clock: w.fake, Synced: func() bool { return w.ntp }, BootID: id, Last: w.disk,
		Record: func(m Mark) error { w.keep(m); return nil }, Log: zerolog.Nop(), TrustExplorer: w.trusting,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.trust = trust
	trust.record(false)
}

// keep stores a mark like the disk.
func (w *world) keep(m Mark) {
	if m.Uptime.Total < w.disk.Uptime.Total {
		w.t.Fatalf("the recorded uptime went back from %s to %s", w.disk.Uptime.Total, m.Uptime.Total)
	}
	w.disk = m
}

// note records NTP's action.
func (w *world) note() {
	if w.ntp {
		w.synced, w.wrongThen, w.never = w.fake.Boot(), w.wrong(), false
	}
}

// pass lets time pass, with a reading at its end.
func (w *world) pass(d time.Duration) {
	w.truth = w.truth.Add(d)
	w.fake.Advance(d)
	w.note()
	w.trust.record(false)
}

// proven reports whether the time may be of level Remove.
func (w *world) proven() bool {
	return w.trusting || !w.never && w.fake.Boot()-w.synced <= Holdover && (w.wrong()-w.wrongThen).Abs() <= MaxJump
}

// check compares a reading with the truth. least is the least allowed uptime.
func (w *world) check(least time.Duration) {
	t, r := w.t, w.trust.Read()
	if r.Level == Remove && !w.proven() {
		t.Fatalf("level %s by %q; NTP was there at %s, now it is %s, never: %v", r.Level, w.trust.Verdict().Source, w.synced, w.fake.Boot(), w.never)
	}
	if d := r.Now.Sub(w.truth).Abs(); r.Level == Remove && !w.trusting && d > MaxJump {
		t.Fatalf("level %s, and off by %s", r.Level, d)
	}
	if passed := w.truth.Sub(w.started); r.Uptime > passed {
		t.Fatalf("an uptime of %s, and only %s have passed", r.Uptime, passed)
	}
	if r.Uptime < least {
		t.Fatalf("an uptime of %s, after %s", r.Uptime, least)
	}
	if floor := w.trust.Floor(); !w.trusting && floor.After(w.truth) {
		t.Fatalf("it is said to be certainly later than %s, and is %s", floor, w.truth)
	}
	w.uptime = r.Uptime
}

func duration(t *rapid.T, name string, from, to time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(int64(from), int64(to)).Draw(t, name))
}

// Whatever happens to a machine, and whatever its explorer says: only NTP, or an
// explorer that the operator trusts, allows irreversible actions; and the uptime
// is never more than the time passed, and doesn't go back.
func TestOnlyProofRemoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, truth: trueStart(), started: trueStart(), trusting: rapid.IntRange(0, 3).Draw(t, "trusting") == 0,
			nameless: rapid.IntRange(0, 5).Draw(t, "nameless") == 0}
		w.boot(0, duration(t, "wrong", -2*year, 2*year))
		says, walk := time.Duration(0), time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			least := w.uptime
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0: // the machine is started again, after a clean stop or a power cut
				clean := rapid.Bool().Draw(t, "clean")
				if clean {
					w.trust.record(true)
				}
				if least = w.disk.Uptime.Total; clean && w.trust.Read().Uptime != least {
					t.Fatalf("a clean stop recorded an uptime of %s, not %s", least, w.trust.Read().Uptime)
				}
				wrong := rapid.SampledFrom([]time.Duration{0, w.wrong(), duration(t, "wrong", -2*year, 2*year)}).Draw(t, "wrong clock")
				w.ntp = w.ntp && wrong == 0
				w.boot(duration(t, "off", 0, 9*24*time.Hour), wrong)
			case 1: // so is the agent
				if w.nameless {
					w.trust.record(true) // unrecorded uptime is lost, for the boot can't be recognized again
				}
				w.start()
			case 2:
				w.ntp = false
				w.fake.Jump(rapid.SampledFrom([]time.Duration{
					duration(t, "jump", -2*year, 2*year), duration(t, "small jump", -MaxJump, MaxJump),
				}).Draw(t, "which jump"))
			case 3: // NTP comes, and sets the clock
				w.fake.Jump(-w.wrong())
				w.ntp = true
			case 4:
				w.ntp = false
			case 5: // the explorer changes its mind, or walks from here on
				says, walk = duration(t, "says", -2*year, 2*year), duration(t, "walk", -Agreement, Agreement)
			case 6:
				w.pass(duration(t, "long", 0, 40*24*time.Hour))
			default: // some answers
				for range rapid.IntRange(1, 12).Draw(t, "answers") {
					w.trust.Hear(w.truth.Add(says))
					w.check(w.uptime)
					says += walk
					w.pass(30 * time.Second)
				}
				least = w.uptime
			}
			w.note()
			w.check(least)
		}
	})
}

// While the explorer's word holds, the time moves no further than the allowed
// difference between agreeing clocks, whether the agent is restarted or not.
func TestTheExplorerDoesNotWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, truth: trueStart(), started: trueStart(), disk: Mark{Time: trueStart().Add(year), Source: Start, BootID: "earlier"}}
		w.boot(0, 0)
		says, believed, first := time.Duration(0), false, time.Duration(0)
		for range rapid.IntRange(1, 200).Draw(t, "answers") {
			says += duration(t, "walk", -time.Minute, 4*time.Minute)
			w.pass(30 * time.Second)
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				w.start()
			}
			w.trust.Hear(w.truth.Add(says))
			r := w.trust.Read()
			off := r.Now.Sub(w.truth)
			switch {
			case r.Level == None:
				believed = false
			case !believed:
				believed, first = true, off
			case (off - first).Abs() > Agreement:
				t.Fatalf("the word was believed at %s, and has walked to %s", first, off)
			}
		}
	})
}
