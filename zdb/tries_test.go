package zdb

import (
	"fmt"
	"testing"
	"time"
)

func TestTriesAreForgotten(t *testing.T) {
	tr := tries{of: map[string]*source{}, pause: triesPause}
	now := time.Unix(1e9, 0)
	waits := func(from string, at time.Time, want time.Duration, wantOK bool) {
		t.Helper()
		if got, ok := tr.wait(from, at); ok != wantOK || max(got, 0) != want {
			t.Errorf("%s waits %v, %v; want %v, %v", from, got, ok, want, wantOK)
		}
	}
	for range 8 {
		waits("a", now, 0, true)
		tr.wrong("a", now)
	}
	waits("a", now, time.Second, true)
	waits("a", now, 2*time.Second, true) // it waits for the one before
	tr.wrong("a", now)
	waits("a", now, 4*time.Second, true)
	for range 20 {
		tr.wrong("a", now)
	}
	waits("a", now, 20*time.Second, true)
	waits("a", now, 0, false)
	waits("b", now, 0, true)
	waits("a", now.Add(triesKept), 0, true)
	tr.wrong("a", now.Add(triesKept))
	waits("a", now.Add(triesKept), 0, true)
}

// However many sources there are, what is remembered of them is bounded, and it
// is the oldest that goes.
func TestTriesAreBounded(t *testing.T) {
	tr := tries{of: map[string]*source{}, pause: triesPause}
	now := time.Unix(1e9, 0)
	for i := range int(WrongPasswords.Total) + 100 {
		tr.wrong(fmt.Sprint(i), now.Add(time.Duration(i)*time.Millisecond))
	}
	if got := len(tr.of); got != int(WrongPasswords.Total) || tr.of["99"] != nil || tr.of["100"] == nil {
		t.Errorf("%d sources are remembered, want %d; the oldest is there: %v", got, WrongPasswords.Total, tr.of["99"] != nil)
	}
}
