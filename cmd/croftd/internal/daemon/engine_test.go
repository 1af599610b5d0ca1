package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/mirrors"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/admit"
	"github.com/croft-edge/croft/provision/plane"
	"github.com/croft-edge/croft/provision/store"
)

// TestOpenClock restores the explorer's time from a store: it permits removal, and dates a birth, only
// while the operator trusts it.
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
		deferred := &deferredClock{}
		d := &daemon{Config: Config{Config: config.Config{StateDir: t.TempDir(), TrustExplorerClock: trusting}, Log: zerolog.Nop()}}
		b := &engineParts{}
		if err := d.openStore(b, deferred, newKick()); err != nil {
			t.Fatal(err)
		}
		s := b.store
		if err := s.SetMark(mark); err != nil {
			t.Fatal(err)
		}
		trust, err := d.openClock(s, func() {})
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]store.Clock{"clock": deferred, "vouched clock": vouchedClock{deferred}} {
			if now, trusted := c.Now(); trusted {
				t.Errorf("the %s trusts %s before the clock is open", name, now)
			}
			if r := c.Read(); r.Level != clock.None || r.Uptime != 0 {
				t.Errorf("the %s reads %+v before the clock is open", name, r)
			}
		}
		deferred.trust.Store(trust)
		v := trust.Verdict()
		if v.Source == clock.NTP {
			want = clock.Remove // NTP keeps this machine's clock, which counts more than any mark
		}
		if v.Level != want || v.Uptime < mark.Uptime.Total {
			t.Errorf("trusting %v: %+v, want %s", trusting, v, want)
		}
		if r := deferred.Read(); r.Level != want || r.Uptime < mark.Uptime.Total {
			t.Errorf("trusting %v: the clock reads %+v", trusting, r)
		}
		now, trusted := deferred.Now()
		vouchedNow, vouched := vouchedClock{deferred}.Now()
		if !trusted || vouched != (want == clock.Remove) || vouchedNow.Sub(now).Abs() > time.Minute {
			t.Errorf("trusting %v: it is %s, trusted %v, and %s, vouched for: %v", trusting, now, trusted, vouchedNow, vouched)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMirrorsNeverStopTheNode: mirrors that can't be made, here because the node's key isn't there, are down, and the store opens.
func TestMirrorsNeverStopTheNode(t *testing.T) {
	c := config.Config{StateDir: t.TempDir(), SecretsDir: t.TempDir()}
	for _, text := range []string{"fs:///backup/croft", "s3://host.example/bucket"} {
		place, err := mirrors.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		c.Mirrors = append(c.Mirrors, place)
	}
	d := &daemon{Config: Config{Config: c, Log: zerolog.Nop()}}
	b := &engineParts{state: &state{engine: plane.NewEngine(plane.EngineConfig{Log: zerolog.Nop()})}}
	changed := newKick()
	if err := d.openStore(b, &deferredClock{}, changed); err != nil {
		t.Fatalf("the node stops: %v", err)
	}
	shown := b.lookMirrors()
	if len(shown) != len(c.Mirrors) {
		t.Fatalf("%d mirrors are shown", len(shown))
	}
	for at, r := range shown {
		is := r.(*host.Store).TypedSpec().Mirror
		if is.Up || is.Complete || is.Place != c.Mirrors[at].Text || !strings.Contains(is.Error, "cannot seal the mirrors of the store") || is.Since.IsZero() {
			t.Errorf("%+v", is)
		}
	}
	if err := b.store.SetMark(clock.Mark{Time: time.Now()}); err != nil {
		t.Errorf("the store can't be written to: %v", err)
	}
	if err := b.store.Close(); err != nil {
		t.Error(err)
	}
}

// TestOrphansOfAnOlderCroft: its list of orphans is adopted, once.
func TestOrphansOfAnOlderCroft(t *testing.T) {
	d := &daemon{Config: Config{Config: config.Config{StateDir: t.TempDir()}, Log: zerolog.Nop()}}
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	old := filepath.Join(d.StateDir, "strays.json")
	if err := os.WriteFile(old, []byte(`[{"type":"volume","id":"9-1","since":"2026-01-02T03:04:05Z"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"first", "again"} {
		book, err := d.openOrphans()
		if err != nil {
			t.Fatal(err)
		}
		known, err := book.Load()
		if err != nil || len(known) != 1 || known[0].ID != "9-1" || !known[0].Since.Equal(since) {
			t.Errorf("%s: %+v, %v", when, known, err)
		}
	}
	if _, err := os.Lstat(old); !os.IsNotExist(err) {
		t.Errorf("the old file: %v", err)
	}
	if err := os.WriteFile(old, []byte(`[]`), 0o600); err != nil { // an older croft ran in between
		t.Fatal(err)
	}
	if book, err := d.openOrphans(); err != nil {
		t.Error(err)
	} else if known, err := book.Load(); err != nil || len(known) != 1 {
		t.Errorf("what this one knows: %+v, %v", known, err)
	}
}

// TestBrokenPools: a pool of unknown disk type may have had either type.
func TestBrokenPools(t *testing.T) {
	got := brokenPools([]node.BrokenPool{
		{Name: "ssd0", DiskType: workload.SSD, Cause: "x"}, {Name: "hdd0", DiskType: workload.HDD}, {Name: "x"},
	})
	want := []admit.BrokenPool{{Name: "ssd0", Cause: "x", SSD: true}, {Name: "hdd0", HDD: true}, {Name: "x", SSD: true, HDD: true}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
