package managed

import (
	"testing"
	"time"
)

func TestPausesGrowAndAreReset(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	r := Record{}
	for n, want := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond} {
		r = AfterExit(AfterStart(r, now), 1, now.Add(time.Second), now.Add(time.Second))
		got := time.Unix(0, r.Next).Sub(now.Add(time.Second))
		if r.Pause != want || got < want*8/10 || got > want*12/10 {
			t.Errorf("pause %d is %s (%s), want about %s", n, got, r.Pause, want)
		}
	}
	for range 20 {
		r = AfterExit(r, 1, now.Add(time.Second), now.Add(time.Second))
	}
	if r.Pause != lastPause || r.Restarts != 3 {
		t.Errorf("the longest pause is %s after %d restarts", r.Pause, r.Restarts)
	}
	r = AfterExit(r, 1, now.Add(stableTime), now.Add(stableTime))
	if r.Pause != firstPause {
		t.Errorf("after it ran for %s the pause is %s", stableTime, r.Pause)
	}
}
