package carrier

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/netns"
)

// This test binary is a carrier too: its first argument says so.
const carry = "carry"

// carryOld is a carrier of another protocol.
const carryOld = "carry-old"

// programs is the folder of the programs that tests build.
var programs string

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == carry {
		os.Exit(carryHere(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == carryOld {
		os.Exit(carryOldHere(os.Args[2]))
	}
	leave, err := cgroup.Nest("croft-test-" + randomName())
	if err != nil {
		panic(err)
	}
	programs, err = os.MkdirTemp("", "carrier-programs-")
	if err != nil {
		panic(err)
	}
	status := m.Run()
	leave()
	_ = os.RemoveAll(programs)
	os.Exit(status)
}

// carryHere is the carrier: RUN [BATCH WINDOW].
func carryHere(args []string) int {
	c := ServeConfig{RunDir: args[0], Version: "test", Level: zerolog.DebugLevel, Zones: DNS([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")})}
	if len(args) > 2 {
		c.Tuning.Batch, _ = strconv.Atoi(args[1])
		c.Tuning.Window, _ = strconv.Atoi(args[2])
	}
	if err := Serve(context.Background(), c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// carryOldHere knows what all carriers know for ever: info and stop.
func carryOldHere(run string) int {
	old := kind()
	old.Protocol++
	err := carrier.Serve(context.Background(), carrier.ServeConfig{Kind: old, RunDir: run, SameGroup: true}, func(context.Context, *carrier.Server, zerolog.Logger) (func(), error) {
		return func() {}, nil
	})
	if err != nil {
		return 1
	}
	return 0
}

func randomName() string {
	var raw [4]byte
	_, _ = rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until polls until ok, or fails.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("not within a minute: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// namespace makes one that ends with the test.
func namespace(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, netns.Make(path))
	must(t, netns.Do(path, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	}))
	t.Cleanup(func() { _ = netns.Remove(path) })
	return path
}

// site is a node: a namespace with an underlay, its carrier, and one tenant.
type site struct {
	ns     string
	tenant string
	run    string
	public netip.Addr // in ns
	inner  netip.Addr // in tenant, on wg0
	key    wireguard.Key
	port   uint16
	args   []string // of the carrier
	client *Client
}

func newSite(t testing.TB, n int, args ...string) *site {
	t.Helper()
	key, err := wgtypes.GeneratePrivateKey()
	must(t, err)
	s := &site{
		ns: namespace(t, "node"), tenant: namespace(t, "tenant"), run: t.TempDir(), key: wireguard.Key(key), args: args,
		public: netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), inner: netip.AddrFrom4([4]byte{10, 99, byte(n), 1}), port: uint16(20000 + n),
	}
	return s
}

// twoSites are two nodes whose namespaces a veth connects.
func twoSites(t testing.TB, args ...string) (a, b *site) {
	t.Helper()
	a, b = newSite(t, 1, args...), newSite(t, 2, args...)
	file, err := os.Open(b.ns)
	must(t, err)
	defer file.Close()
	must(t, netns.Do(a.ns, func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "under"}, PeerName: "under", PeerNamespace: netlink.NsFd(int(file.Fd()))})
	}))
	for _, s := range []*site{a, b} {
		addAddress(t, s.ns, "under", netip.PrefixFrom(s.public, 24))
	}
	return a, b
}

func addAddress(t testing.TB, ns, link string, p netip.Prefix) {
	t.Helper()
	must(t, netns.Do(ns, func() error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		ipnet := &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
		if err := netlink.AddrReplace(l, &netlink.Addr{IPNet: ipnet}); err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	}))
}

// carrier is the config that starts the site's carrier in its namespace.
func (s *site) carrier() Config {
	exe, _ := os.Executable()
	command := append([]string{"nsenter", "--net=" + s.ns, exe, carry, s.run}, s.args...)
	return Config{RunDir: s.run, Command: command, Log: zerolog.Nop()}
}

// start ensures the site's carrier, and stops it at the end.
func (s *site) start(t testing.TB) *Client {
	t.Helper()
	client, err := Ensure(t.Context(), s.carrier())
	if err != nil {
		text, _ := os.ReadFile(filepath.Join(s.run, "wg", "log"))
		t.Fatalf("%v\n%s", err, text)
	}
	s.client = client
	t.Cleanup(func() {
		if text, err := os.ReadFile(filepath.Join(s.run, "wg", "log")); err == nil && t.Failed() {
			t.Logf("the carrier's log:\n%s", text)
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		select {
		case <-client.Done():
			return
		default:
		}
		if err := client.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return client
}

func (s *site) peer(endpoint bool) wireguard.Peer {
	p := wireguard.Peer{PublicKey: s.key.Public(), AllowedIPs: []netip.Prefix{netip.PrefixFrom(s.inner, 32)}}
	if endpoint {
		p.Endpoint = netip.AddrPortFrom(s.public, s.port)
	}
	return p
}

func (s *site) config(peers ...wireguard.Peer) wireguard.Config {
	return wireguard.Config{Name: "wg0", Namespace: s.tenant, PrivateKey: s.key, ListenPort: s.port, Peers: peers}
}

// address gives wg0 the site's address, with a route to all others.
func (s *site) address(t testing.TB) { addAddress(t, s.tenant, "wg0", netip.PrefixFrom(s.inner, 16)) }

// connected are two sites with a tunnel between their tenants.
func connected(t testing.TB, args ...string) (a, b *site) {
	t.Helper()
	a, b = twoSites(t, args...)
	for _, pair := range [][2]*site{{a, b}, {b, a}} {
		s, other := pair[0], pair[1]
		must(t, s.start(t).SetDevice(t.Context(), "net1", s.config(other.peer(true))))
		s.address(t)
	}
	return a, b
}
