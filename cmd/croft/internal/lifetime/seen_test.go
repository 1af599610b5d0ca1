package lifetime_test

import (
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/lifetime"
)

func TestLastSeen(t *testing.T) {
	now := time.Unix(1000, 0)
	for updated, want := range map[int64][2]string{
		0:    {"never seen", "never"},
		700:  {"last seen 5m ago", "5m ago"},
		1007: {"last seen 0s ago", "0s ago"},
	} {
		if long, short := lifetime.LastSeen(updated, now), lifetime.Ago(updated, now); long != want[0] || short != want[1] {
			t.Errorf("%d: %q and %q, want %q", updated, long, short, want)
		}
	}
}
