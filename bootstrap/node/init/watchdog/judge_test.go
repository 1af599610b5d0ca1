package watchdog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// run has a judge see the same each 5 seconds for a time, and returns when it wanted what.
func run(j Judge, from time.Time, uptime, length time.Duration, pid int, turns bool) (Judge, map[Action][]time.Duration) {
	out := map[Action][]time.Duration{}
	for at := time.Duration(0); at <= length; at += 5 * time.Second {
		var action Action
		j, action = j.See(from.Add(at), uptime+at, pid, turns)
		if action != Nothing {
			out[action] = append(out[action], at)
		}
	}
	return j, out
}

func TestStuckEngine(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	j, wanted := run(Judge{}, start, 0, time.Hour, 1, true)
	if len(wanted) != 0 {
		t.Fatalf("an engine that turns: %v", wanted)
	}
	j, wanted = run(j, start, time.Hour, 10*time.Minute, 1, false)
	if got := wanted[RestartEngine]; len(got) != 4 || got[0] != 2*time.Minute || got[3] != 8*time.Minute {
		t.Errorf("the process is started again after %v", got)
	}
	if got := wanted[Reboot]; len(got) != 1 || got[0] != 10*time.Minute {
		t.Errorf("the machine is started again after %v", got)
	}
	if j.StuckFor(start.Add(time.Minute)) != time.Minute {
		t.Errorf("it is stuck for %s", j.StuckFor(start.Add(time.Minute)))
	}
}

// TestEngineThatNeverTurned: a machine that can't work, such as one with a dead disk, isn't started again and again.
func TestEngineThatNeverTurned(t *testing.T) {
	_, wanted := run(Judge{}, time.Unix(1_700_000_000, 0), 0, 65*time.Minute, 1, false)
	if got := wanted[Reboot]; len(got) == 0 || got[0] != time.Hour {
		t.Errorf("the machine is started again after %v", got)
	}
}

// TestEngineThatDoesNotRun: a process that ends is started again by its runner; the machine isn't for that.
func TestEngineThatDoesNotRun(t *testing.T) {
	if _, wanted := run(Judge{turned: true}, time.Unix(1_700_000_000, 0), 0, 5*time.Hour, 0, false); len(wanted) != 0 {
		t.Errorf("%v", wanted)
	}
}

// TestTheGapAfterAStuckProcessForgivesNothing: the machine is started again also when each process that was ended is seen to be gone before the next, at
// once or after it has hung for long.
func TestTheGapAfterAStuckProcessForgivesNothing(t *testing.T) {
	for _, dying := range []time.Duration{0, 10 * time.Second, 30 * time.Second, 90 * time.Second} {
		now, j, action, pid := time.Unix(1_700_000_000, 0), Judge{turned: true}, Nothing, 1
		began, killed := now, time.Time{}
		for ; action != Reboot && now.Sub(began) < time.Hour; now = now.Add(10 * time.Second) {
			runs := pid
			if !killed.IsZero() && now.Sub(killed) > dying {
				killed, pid, runs = time.Time{}, pid+1, 0 // the next is started until the next look
			}
			if j, action = j.See(now, time.Hour, runs, false); action == RestartEngine && killed.IsZero() {
				killed = now
			}
		}
		if took := now.Sub(began); action != Reboot || took > 11*time.Minute {
			t.Errorf("with processes that die %s after they are killed, the machine is started again after %s (%v)", dying, took, action)
		}
	}
}

// pidAt is the process that runs at a time, of those that end each minute; 0 for none.
func pidAt(at time.Duration) int {
	if at%time.Minute == 0 {
		return 0
	}
	return 2 + int(at/time.Minute)
}

// TestAProcessThatEndsByItselfIsNotStuck: one that ends a minute after each start isn't stuck, however often that happens and whatever was stuck before.
func TestAProcessThatEndsByItselfIsNotStuck(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	j, _ := run(Judge{turned: true}, start, 0, 2*time.Minute, 1, false)
	for at := 130 * time.Second; at < 5*time.Hour; at += 10 * time.Second {
		var action Action
		if j, action = j.See(start.Add(at), at, pidAt(at), false); action != Nothing {
			t.Fatalf("after %s: %v", at, action)
		}
	}
}

// TestAProcessThatDoesNotComeBackIsNotStuck: an engine that was ended, and ends by itself at each start since, is given its time when it runs again.
func TestAProcessThatDoesNotComeBackIsNotStuck(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	j, wanted := run(Judge{turned: true}, start, 0, 2*time.Minute, 1, false)
	if len(wanted[RestartEngine]) != 1 {
		t.Fatalf("%v", wanted)
	}
	j, _ = run(j, start.Add(2*time.Minute+time.Second), 0, 20*time.Minute, 0, false)
	if _, wanted := run(j, start.Add(23*time.Minute), 0, time.Minute, 2, false); len(wanted) != 0 {
		t.Errorf("%v", wanted)
	}
}

// TestOneTurnForgives holds that one turn ends all patience that was used up.
func TestOneTurnForgives(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	j, _ := run(Judge{turned: true}, start, 0, 9*time.Minute, 1, false)
	j, _ = j.See(start.Add(9*time.Minute+time.Second), 0, 1, true)
	if _, wanted := run(j, start.Add(10*time.Minute), 0, 9*time.Minute, 1, false); len(wanted[Reboot]) != 0 {
		t.Errorf("%v", wanted)
	}
}

func TestDevices(t *testing.T) {
	sys, dev := t.TempDir(), t.TempDir()
	add := func(name, identity string) {
		if err := os.MkdirAll(filepath.Join(sys, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sys, name, "identity"), []byte(identity+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dev, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dev, sys, func(string) error { return errors.New("no module") }); err == nil {
		t.Error("a watchdog that isn't there is open")
	}
	d, err := Open(dev, sys, func(module string) error { add("watchdog0", "Software Watchdog"); return nil })
	if err != nil || d.Name() != "Software Watchdog" {
		t.Fatalf("%v, %v", d, err)
	}
	add("watchdog1", "iTCO_wdt")
	d, err = Open(dev, sys, func(string) error { t.Error("a module is loaded though there is hardware"); return nil })
	if err != nil || d.Name() != "iTCO_wdt" {
		t.Fatalf("%v, %v", d, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if raw, _ := os.ReadFile(filepath.Join(dev, "watchdog1")); string(raw) != "\x00V" {
		t.Errorf("the watchdog was told %q", raw)
	}
}
