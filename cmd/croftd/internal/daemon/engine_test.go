package daemon

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/provision/store"
)

// TestOpenClock goes on from what a store remembers of the explorer's word: it
// is good for removing only while the operator says so, and dates a birth only then.
func TestOpenClock(t *testing.T) {
	boot, err := clock.BootID()
	if err != nil {
		t.Fatal(err)
	}
	up := clock.System{}.Boot()
	mark := clock.Mark{
		Time: time.Now().Add(30 * 24 * time.Hour), Boot: up, BootID: boot, Source: clock.TrustedExplorer, Confirmed: up,
		Uptime: clock.Uptime{Total: up + 1000*time.Hour, Boot: up, BootID: boot},
	}
	for trusting, want := range map[bool]clock.Level{true: clock.Remove, false: clock.Stop} {
		late := &lateClock{}
		d := &daemon{Config: Config{Config: config.Config{StateDir: t.TempDir(), TrustExplorerClock: trusting}, Log: zerolog.Nop()}}
		s, err := d.openStore(late)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetMark(mark); err != nil {
			t.Fatal(err)
		}
		trust, err := d.openClock(s)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]store.Clock{"clock": late, "vouched clock": vouchedClock{late}} {
			if now, trusted := c.Now(); trusted {
				t.Errorf("the %s trusts %s before the clock is open", name, now)
			}
		}
		late.trust.Store(trust)
		v := trust.Verdict()
		if v.Source == clock.NTP {
			want = clock.Remove // NTP keeps this machine's clock, which is better than any mark
		}
		if v.Level != want || v.Uptime < mark.Uptime.Total {
			t.Errorf("trusting %v: %+v, want %s", trusting, v, want)
		}
		now, trusted := late.Now()
		vouchedNow, vouched := vouchedClock{late}.Now()
		if !trusted || vouched != (want == clock.Remove) || vouchedNow.Sub(now).Abs() > time.Minute {
			t.Errorf("trusting %v: it is %s, trusted %v, and %s, vouched for: %v", trusting, now, trusted, vouchedNow, vouched)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
