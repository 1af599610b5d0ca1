package backoff_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/backoff"
)

func TestDelay(t *testing.T) {
	b := backoff.Backoff{Base: 100 * time.Millisecond, Max: time.Second}
	for failures, whole := range map[int]time.Duration{
		0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 4: 800 * time.Millisecond, 5: time.Second, 90: time.Second, 1 << 30: time.Second,
	} {
		for range 100 {
			if got := b.Delay(failures); got < whole/2 || got > whole {
				t.Fatalf("after %d failures the wait is %s, want %s to %s", failures, got, whole/2, whole)
			}
		}
	}
}

func TestDelayIsRepeatable(t *testing.T) {
	delays := func() (out []time.Duration) {
		b := backoff.Backoff{Base: time.Second, Max: time.Hour, Chance: rand.New(rand.NewPCG(1, 2))}
		for n := range 10 {
			out = append(out, b.Delay(n))
		}
		return out
	}
	one, other := delays(), delays()
	for i := range one {
		if one[i] != other[i] {
			t.Fatalf("with the same source the waits are %v and %v", one, other)
		}
	}
}

func TestWaitsOfAnySize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "d"))
		if got := backoff.Around(d); got < d-d/5 || got > d+d/5 {
			t.Fatalf("around %s is %s", d, got)
		}
		b := backoff.Backoff{Base: d, Max: 2 * d}
		if got := b.Delay(rapid.IntRange(0, 100).Draw(t, "failures")); got < d/2 || got > 2*d {
			t.Fatalf("the wait is %s for %s", got, d)
		}
	})
}

// TestTogether holds what Together promises of every wait, and that those of equal and of multiple length come to end at the same moments.
func TestTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(24*365*time.Hour)).Draw(t, "now"))
		d := time.Duration(rapid.OneOf(rapid.Int64Range(0, int64(10*time.Minute)), rapid.Int64Range(0, 1<<62)).Draw(t, "wait"))
		got := backoff.TogetherAt(now, d)
		switch {
		case d < time.Second && got != d:
			t.Fatalf("%s is %s", d, got)
		case got > d, got <= min(3*d/4, d-time.Second) && d > 0:
			t.Fatalf("a wait of %s that begins at %s is %s", d, now, got)
		case d >= time.Second && (now+got)%time.Second != 0:
			t.Fatalf("a wait of %s that begins at %s ends at %s", d, now, now+got)
		case d >= 8*time.Second && (now+got)%(2*time.Second) != 0:
			t.Fatalf("a wait of %s that begins at %s ends at %s", d, now, now+got)
		}
	})
	// What begins at one of the moments takes as long as it says, where that is a multiple of its grid.
	for _, d := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, time.Minute + 4*time.Second} {
		if got := backoff.TogetherAt(16*time.Second, d); got != d {
			t.Errorf("%s is %s", d, got)
		}
	}
}
