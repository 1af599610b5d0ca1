package carrier

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/croft-edge/croft/modules/network/wireguard"
)

// peerKeys are the public keys of the peers of all devices.
var peerKeys = sync.OnceValue(func() []wireguard.Key {
	keys := make([]wireguard.Key, 128)
	for i := range keys {
		key, err := wgtypes.GeneratePrivateKey()
		if err != nil {
			panic(err)
		}
		keys[i] = wireguard.Key(key).Public()
	}
	return keys
})

// expensive is a device with so many peers, each of so many ranges.
func expensive(t *testing.T, namespace string, peers, ranges int) wireguard.Config {
	t.Helper()
	c := wireguard.Config{Name: "wg0", Namespace: namespace, PrivateKey: wireguard.Key(generated(t))}
	for i := range peers {
		p := wireguard.Peer{PublicKey: peerKeys()[i], Endpoint: netip.MustParseAddrPort("192.0.2.1:9")}
		for k := range ranges {
			a := netip.AddrFrom4([4]byte{10, byte(i), byte(k), 0})
			six := netip.AddrFrom16([16]byte{0xfd, 7: byte(i), 8: byte(k)})
			p.AllowedIPs = append(p.AllowedIPs, netip.PrefixFrom(a, 24), netip.PrefixFrom(six, 72))
		}
		c.Peers = append(c.Peers, p)
	}
	return c
}

// croftd builds one without the race detector in programs, for all tests.
var croftd = sync.OnceValues(func() (string, error) {
	program := filepath.Join(programs, "croftd")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "github.com/croft-edge/croft/cmd/croftd")
	out, err := build.CombinedOutput()
	return program, errors.Wrap(err, string(out))
})

// built is the path of a croftd without the race detector.
func built(t *testing.T) string {
	t.Helper()
	program, err := croftd()
	must(t, err)
	return program
}

// plain starts a carrier that is built without the race detector, whose memory says
// nothing of the real one's, in the namespace of s and with that environment of Go's.
func plain(t *testing.T, s *site, program, environment string) *Client {
	t.Helper()
	client, err := Ensure(t.Context(), Config{
		RunDir: s.run, Log: zerolog.Nop(),
		Command: []string{"env", environment, "nsenter", "--net=" + s.ns, program, "carrier", "wg", "--run-dir", s.run},
	})
	must(t, err)
	t.Cleanup(func() {
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := client.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return client
}

func generated(t *testing.T) wgtypes.Key {
	t.Helper()
	key, err := wgtypes.GeneratePrivateKey()
	must(t, err)
	return key
}

// How often the garbage collector of a carrier of many devices runs depends on its garbage, not on its live memory: a list is a
// quarter of a run. If it depended on the memory, each list would be several.
func TestTheCollectorRests(t *testing.T) {
	s := newSite(t, 1)
	client := plain(t, s, built(t), "GODEBUG=gctrace=1")
	for i := range 64 {
		id := fmt.Sprint("net", i)
		must(t, client.SetDevice(t.Context(), id, expensive(t, namespace(t, id), 20, 1)))
	}
	before := collections(t, s)
	const lists = 40
	for range lists {
		_, err := client.Devices(t.Context())
		must(t, err)
	}
	if runs := collections(t, s) - before; runs > lists/2 {
		t.Errorf("the collector ran %d times for %d lists", runs, lists)
	} else {
		t.Logf("the collector ran %d times for %d lists, %d before", runs, lists, before)
	}
}

// collections is how often the collector of a carrier has run.
func collections(t *testing.T, s *site) (runs int) {
	t.Helper()
	text, err := os.ReadFile(kind().Folder(s.run).Log())
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "gc ") {
			runs++
		}
	}
	return runs
}

func TestGCPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 4: 100, 32: 100, 33: 96, 64: 50, 640: 5, 1 << 40: 1} {
		if got := percent(live<<20, 32<<20); got != want {
			t.Errorf("%d MiB in use: %d %%, want %d", live, got, want)
		}
	}
}

// Networks that come and go leave no more behind than those that stay take: buffers that are made of what
// others had aren't new to the machine.
func TestNetworksThatComeAndGoFitTheCeiling(t *testing.T) {
	s := newSite(t, 1)
	client := plain(t, s, built(t), "GODEBUG=gctrace=1")
	const peers, rounds = 20, 2
	networks := int(Budget / Cost(peers, peers*2))
	most := uint64(0)
	for round := range rounds {
		for i := range networks {
			id := fmt.Sprint("net", i)
			ns := s.tenant
			if round > 0 {
				must(t, client.RemoveDevice(t.Context(), id))
			}
			c := expensive(t, ns, peers, 1)
			c.Name = fmt.Sprint("wg", i)
			must(t, client.SetDevice(t.Context(), id, c))
			_, err := client.Devices(t.Context()) // the node looks at them meanwhile
			must(t, err)
		}
		info, err := client.Info(t.Context())
		must(t, err)
		most = max(most, info.Memory)
		t.Logf("round %d: %d networks, %d MiB, the collector ran %d times", round, networks, info.Memory>>20, collections(t, s))
	}
	if most > DefaultHardLimit/2 {
		t.Errorf("%d MiB of %d were taken", most>>20, uint64(DefaultHardLimit/2)>>20)
	}
}

// TestNetworksFitTheirCost holds Cost to what carriers hold without garbage, with networks of
// every shape: as many as a quarter of the budget allows. With all of it, and garbage, see above.
func TestNetworksFitTheirCost(t *testing.T) {
	program := built(t)
	for _, c := range []struct{ peers, ranges int }{{0, 0}, {1, 1}, {16, 2}, {128, 1}, {128, 16}} {
		t.Run(fmt.Sprintf("%d peers of %d ranges", c.peers, c.ranges), func(t *testing.T) {
			client := plain(t, newSite(t, 1), program, "GOMEMLIMIT=1MiB") // all garbage is collected at once
			before, err := client.Info(t.Context())
			must(t, err)
			each := Cost(c.peers, c.peers*c.ranges)
			networks := Budget / 4 / each
			for i := range networks {
				id := fmt.Sprint("net", i)
				ns := namespace(t, id)
				must(t, client.SetDevice(t.Context(), id, expensive(t, ns, c.peers, c.ranges)))
				must(t, client.SetZone(t.Context(), Zone{ID: id, Namespace: ns, Network: "net", Names: map[string][]netip.Addr{}}))
			}
			after, err := client.Info(t.Context())
			must(t, err)
			if took := (after.Memory - before.Memory) / networks; took > each {
				t.Errorf("each of %d takes %d KiB, the cost is %d KiB", networks, took>>10, each>>10)
			} else {
				t.Logf("each of %d takes %d KiB, the cost is %d KiB", networks, took>>10, each>>10)
			}
		})
	}
}
