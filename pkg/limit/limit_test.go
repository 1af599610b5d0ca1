package limit_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/limit"
)

var sample = limit.Limit{Name: "sample", Per: "user", Each: 4, Total: 10, Kept: 3}

func TestALimitIsShownAsInTheTable(t *testing.T) {
	for want, l := range map[string]limit.Limit{
		"4 a user, 10 in total, 3 of them kept": sample,
		"2 MiB a source":                        {Per: "source", Each: 2 << 20, Unit: limit.Bytes},
		"1 GiB in total":                        {Total: 1 << 30, Unit: limit.Bytes},
		"1500 B a key, 3 KiB in total":          {Per: "key", Each: 1500, Total: 3 << 10, Unit: limit.Bytes},
	} {
		if got := l.String(); got != want {
			t.Errorf("%+v is shown as %q, want %q", l, got, want)
		}
	}
}

func TestSourcesAreAddressesOrNetworksOf64(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.7":               "192.0.2.7",
		"::ffff:192.0.2.7":        "192.0.2.7",
		"2001:db8:1:2:3:4:5:6":    "2001:db8:1:2::/64",
		"fe80::1%eth0":            "fe80::/64",
		"[2001:db8:1:2::9]:1234":  "2001:db8:1:2::/64",
		"192.0.2.7:80":            "192.0.2.7",
		"":                        "unknown",
		"not an address":          "unknown",
		"[fe80::1%eth0]:80":       "fe80::/64",
		"[::ffff:192.0.2.7]:1234": "192.0.2.7",
	} {
		if got := limit.SourceOfHostPort(addr); got != want {
			t.Errorf("the source of %q is %q, want %q", addr, got, want)
		}
	}
	remote := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[2001:db8::1]:7"))
	if got := limit.SourceOf(remote); got != "2001:db8::/64" {
		t.Errorf("the source of %v is %q", remote, got)
	}
	if got := limit.SourceOf(&net.UnixAddr{Name: "@"}); got != "local" {
		t.Errorf("the source of a Unix socket is %q", got)
	}
}

// TestSharesKeepEachLimit checks random takes and gives against recomputed sums.
func TestSharesKeepEachLimit(t *testing.T) {
	type taken struct {
		key   string
		n     int64
		known bool
		give  func()
	}
	rapid.Check(t, func(t *rapid.T) {
		l := limit.Limit{
			Name: "checked", Per: "key",
			Each:  rapid.Int64Range(0, 6).Draw(t, "each"),
			Total: rapid.Int64Range(0, 12).Draw(t, "total"),
		}
		if l.Total > 0 {
			l.Kept = rapid.Int64Range(0, l.Total).Draw(t, "kept")
		}
		s := l.Shares()
		var all []taken
		sum := func(of func(taken) bool) (n int64) {
			for _, a := range all {
				if of(a) {
					n += a.n
				}
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				a := taken{
					key:   rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"),
					n:     rapid.Int64Range(0, 5).Draw(t, "n"),
					known: rapid.Bool().Draw(t, "known"),
				}
				each := sum(func(b taken) bool { return b.key == a.key }) + a.n
				total := sum(func(taken) bool { return true }) + a.n
				unknown := sum(func(b taken) bool { return !b.known }) + a.n
				fits := (l.Each == 0 || each <= l.Each) &&
					(l.Total == 0 || total <= l.Total && (a.known || unknown <= l.Total-l.Kept))
				take := s.Take
				if a.known {
					take = s.TakeKnown
				}
				before := limit.Times()[l.Name]
				give, err := take(a.key, a.n)
				if (err == nil) != fits {
					t.Fatalf("taking %d for %s (known %t) answers %v, fits is %t", a.n, a.key, a.known, err, fits)
				}
				if full := (*limit.Full)(nil); err != nil && !errors.As(err, &full) {
					t.Fatalf("the error is %T", err)
				}
				if counted := limit.Times()[l.Name] - before; counted == 1 != (err != nil) {
					t.Fatalf("it was counted %d times, the error is %v", counted, err)
				}
				if a.give = give; err == nil {
					all = append(all, a)
				}
			},
			"give": func(t *rapid.T) {
				if len(all) == 0 {
					return
				}
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				all[i].give()
				all[i].give()
				all = append(all[:i:i], all[i+1:]...)
			},
			"": func(t *rapid.T) {
				if got, want := s.Total(), sum(func(taken) bool { return true }); got != want {
					t.Fatalf("the total is %d, want %d", got, want)
				}
				if got, want := s.Held("a"), sum(func(b taken) bool { return b.key == "a" }); got != want {
					t.Fatalf("a holds %d, want %d", got, want)
				}
			},
		})
	})
}

func TestGivingTwiceGivesOnce(t *testing.T) {
	s := sample.Shares()
	give, err := s.Take("a", 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Take("a", 2); err == nil || err.Error() != "sample: a user has at most 4" {
		t.Errorf("beyond the user's limit: %v", err)
	}
	for range 3 {
		give()
	}
	if s.Total() != 0 || s.Held("a") != 0 {
		t.Errorf("%d are taken, %d of them by a", s.Total(), s.Held("a"))
	}
}

func TestExistingUseIsHeld(t *testing.T) {
	s := sample.Shares()
	s.Hold("a", 5)
	s.HoldKnown("b", 4)
	if _, err := s.Take("a", 1); err == nil {
		t.Error("a may take more than its limit")
	}
	if _, err := s.Take("c", 3); err == nil {
		t.Error("c, which isn't known, may take what is kept")
	}
	s.Hold("a", -5)
	s.HoldKnown("b", -4)
	if _, err := s.Take("c", 3); err != nil || s.Total() != 3 || s.Held("a") != 0 {
		t.Errorf("after giving all back: %v, %d are taken", err, s.Total())
	}
}
