package render_test

import (
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/render"
)

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 3 << 30: "3.0 GiB", 5000 << 40: "5000.0 TiB"} {
		if got := render.Bytes(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestClock(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.Local)
	if got := render.Clock(at); got != "2030-01-02 03:04" || render.Clock(time.Time{}) != "" {
		t.Errorf("got %q and %q", got, render.Clock(time.Time{}))
	}
}
