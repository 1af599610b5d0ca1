package throttle

import (
	"fmt"
	"testing"
	"time"
)

func TestAttemptsAreForgotten(t *testing.T) {
	tr := New()
	now := time.Unix(1e9, 0)
	waits := func(from string, at time.Time, want time.Duration, wantOK bool) {
		t.Helper()
		if got, ok := tr.Wait(from, at); ok != wantOK || max(got, 0) != want {
			t.Errorf("%s waits %v, %v; want %v, %v", from, got, ok, want, wantOK)
		}
	}
	for range 8 {
		waits("a", now, 0, true)
		tr.Wrong("a", now)
	}
	waits("a", now, time.Second, true)
	waits("a", now, 2*time.Second, true) // it waits for the one before
	tr.Wrong("a", now)
	waits("a", now, 4*time.Second, true)
	for range 20 {
		tr.Wrong("a", now)
	}
	waits("a", now, 20*time.Second, true)
	waits("a", now, 0, false)
	waits("b", now, 0, true)
	waits("a", now.Add(kept), 0, true)
	tr.Wrong("a", now.Add(kept))
	waits("a", now.Add(kept), 0, true)
}

// However many sources there are, the memory of them is bounded, and the oldest
// goes first.
func TestAttemptsAreBounded(t *testing.T) {
	tr := New()
	now := time.Unix(1e9, 0)
	for i := range int(WrongPasswords.Total) + 100 {
		tr.Wrong(fmt.Sprint(i), now.Add(time.Duration(i)*time.Millisecond))
	}
	if got := len(tr.sources); got != int(WrongPasswords.Total) || tr.sources["99"] != nil || tr.sources["100"] == nil {
		t.Errorf("%d sources are remembered, want %d; the oldest is there: %v", got, WrongPasswords.Total, tr.sources["99"] != nil)
	}
}
