package dns

import (
	"context"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/netns"
)

// A socket that can't be read any more is told by List, and made anew by Set.
func TestBrokenSocketsAreMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "netns")
	if err := netns.Make(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Remove(path) })
	s, err := New(Config{Log: zerolog.New(zerolog.NewTestWriter(t))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	zone := Zone{ID: "one", Namespace: path, Names: map[string][]netip.Addr{"web": {netip.MustParseAddr("10.1.1.5")}}}
	if err := s.Set(context.Background(), zone); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	broken := s.zones["one"]
	s.mu.Unlock()
	broken.sockets.udp[1].Close()
	deadline := time.After(2 * time.Minute)
	for s.List("")[0].Listening {
		select {
		case <-deadline:
			t.Fatal("nobody says that a socket is broken")
		case <-time.After(5 * time.Millisecond):
		}
	}
	if got := s.List("")[0].Err; !strings.Contains(got, "closed") {
		t.Errorf("it says %q", got)
	}
	if err := s.Set(context.Background(), zone); err != nil {
		t.Fatal(err)
	}
	if got := s.List(""); len(got) != 1 || !got[0].Listening || got[0].Err != "" {
		t.Errorf("after another Set it is %+v", got)
	}
	if broken.ctx.Err() == nil {
		t.Error("the broken one still runs")
	}
}
