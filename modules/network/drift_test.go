package network_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/modules/network"
	"github.com/croft-edge/croft/modules/network/links"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/workload"
)

// household is a network with a peer and two members, one of which answers.
type household struct {
	*fixture
	spec     node.NetworkSpec
	info     node.NetworkInfo
	web, cat node.Member
	webPID   uint64
	catPID   uint64
}

func newHousehold(t *testing.T) *household {
	t.Helper()
	f := newFixture(t)
	h := &household{fixture: f, webPID: process(t), catPID: process(t)}
	h.spec = conformance.NetworkSpec(t, "net1", "10.1.2.0/24", port(t))
	h.spec.Peers = []workload.WireGuardPeer{{
		Subnet: "10.1.3.0/24", PublicKey: "cnS4uHqHsn77zuU7eUlekbE3kl4YOycgdAihgKV+KA4=", AllowedIPs: []string{"10.1.3.0/24"}, Endpoint: "11.22.33.44:3001",
	}}
	h.info = h.create()
	h.web = h.joined(node.MemberSpec{Network: h.spec.ID, Member: "5-1", Name: "web", PID: h.webPID})
	h.cat = h.joined(node.MemberSpec{Network: h.spec.ID, Member: "6-1", PID: h.catPID})
	var err error
	var listener net.Listener
	err = netns.Do(netns.OfProcess(h.webPID), func() (err error) {
		listener, err = net.Listen("tcp", "[::]:80")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	return h
}

// drift is the network's drift as the module reports it.
func (h *household) drift() string {
	h.t.Helper()
	var list []node.NetworkInfo
	err := again(func() (err error) {
		list, err = h.networks.List(h.t.Context())
		return err
	})
	if err != nil || len(list) != 1 {
		h.t.Fatalf("%d networks, %v", len(list), err)
	}
	return list[0].Drift
}

// drifts waits until the drift says so: the kernel tells of a change a moment later, and what nothing was told of isn't looked at.
func (h *household) drifts(says string) {
	h.t.Helper()
	drift := ""
	for deadline := time.Now().Add(time.Minute); drift == "" || !strings.Contains(drift, says); time.Sleep(5 * time.Millisecond) {
		if drift = h.drift(); time.Now().After(deadline) {
			h.t.Fatalf("drift is %q, want it to say %q", drift, says)
		}
	}
}

// works fails unless one member reaches the other, by both families, and the
// gateway's DNS knows a name.
func (h *household) works() {
	h.t.Helper()
	for _, address := range []string{h.web.IPv4 + ":80", "[" + h.web.IPv6 + "]:80"} {
		err := netns.Do(netns.OfProcess(h.catPID), func() error {
			conn, err := net.DialTimeout("tcp", address, patience)
			if err == nil {
				err = conn.Close()
			}
			return err
		})
		if err != nil {
			h.t.Errorf("a member doesn't reach %s: %v", address, err)
		}
	}
	names := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
		err = netns.Do(netns.OfProcess(h.catPID), func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(h.info.Gateway, "53"))
			return err
		})
		return conn, err
	}}
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	got, err := names.LookupHost(ctx, "web.croft.internal.")
	if err != nil || len(got) != 2 {
		h.t.Errorf("the gateway's DNS says %v, %v", got, err)
	}
}

// run runs a command in a network namespace.
func run(t *testing.T, namespace, command string) {
	t.Helper()
	line := append([]string{"--net=" + namespace}, strings.Fields(command)...)
	if out, err := exec.Command("nsenter", line...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

func TestDamageIsDetectedAndMended(t *testing.T) {
	const own, web = "own", "web"
	for name, c := range map[string]struct{ where, command, says string }{
		"the bridge is removed":       {own, "ip link del br0", "link br0 is gone"},
		"the bridge is down":          {own, "ip link set br0 down", "br0 is down"},
		"the gateway's address":       {own, "ip addr del 10.1.2.1/24 dev br0", "br0 has no address 10.1.2.1/24"},
		"a foreign address":           {own, "ip addr add 10.9.9.9/24 dev br0", "br0 has address 10.9.9.9/24"},
		"a port is removed":           {own, "ip link del m0", "link m0 is gone"},
		"a port is off the bridge":    {own, "ip link set m0 nomaster", "link m0 isn't on the bridge"},
		"the uplink is removed":       {own, "ip link del up0", "link up0 is gone"},
		"the default route":           {own, "ip route del default", "up0 has no route 0.0.0.0/0"},
		"a peer's route":              {own, "ip route del 10.1.3.0/24", "wg0 has no route 10.1.3.0/24"},
		"the tunnel's link":           {own, "ip link del wg0", "wg0"},
		"the tunnel is down":          {own, "ip link set wg0 down", "wg0"},
		"the rules are flushed":       {own, "nft flush ruleset", "table"},
		"a rule is flushed":           {own, "nft flush chain inet croft forward", "forward"},
		"a member's link":             {web, "ip link del eth0", "gone"},
		"a member's address":          {web, "ip addr flush dev eth0", "eth0 has no address"},
		"a member's route":            {web, "ip route del default", "eth0 has no route 0.0.0.0/0"},
		"it doesn't forward":          {own, "sysctl -qw net.ipv4.ip_forward=0", "setting net/ipv4/ip_forward isn't 1"},
		"nor does it in IPv6":         {own, "sysctl -qw net.ipv6.conf.all.forwarding=0", "setting net/ipv6/conf/all/forwarding isn't 1"},
		"it believes its neighbours":  {own, "sysctl -qw net.ipv6.conf.default.accept_ra=2", "setting net/ipv6/conf/default/accept_ra isn't 0"},
		"all that the kernel forgets": {own, "ip route flush table main", "no route"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHousehold(t)
			h.works()
			if drift := h.drift(); drift != "" {
				t.Fatalf("undamaged: %s", drift)
			}
			where := h.info.Namespace
			if c.where == web {
				where = netns.OfProcess(h.webPID)
			}
			run(t, where, c.command)
			h.drifts(c.says)
			h.mends(t)
		})
	}
}

// A member that joins or leaves mends a damaged network; damage of another
// member's own parts is left to a check of all.
func TestAMembersChangeMends(t *testing.T) {
	const own, web = "own", "web"
	for name, c := range map[string]struct {
		where, command string
		left           bool
	}{
		"the bridge is removed": {where: own, command: "ip link del br0"},
		"the uplink is removed": {where: own, command: "ip link del up0"},
		"the tunnel's link":     {where: own, command: "ip link del wg0"},
		"the rules are flushed": {where: own, command: "nft flush ruleset"},
		"a rule is flushed":     {where: own, command: "nft flush chain inet croft forward"},
		"a set is flushed":      {where: own, command: "nft flush set bridge croft addresses4"},
		"somebody else's rules": {where: own, command: "nft add table inet other"},
		"another's address":     {where: web, command: "ip addr flush dev eth0", left: true},
		"nothing":               {where: own, command: "true"},
	} {
		for _, leaves := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, leaves %t", name, leaves), func(t *testing.T) {
				t.Parallel()
				h := newHousehold(t)
				third := node.MemberSpec{Network: h.spec.ID, Member: "7-1", Name: "third", PID: process(t)}
				if leaves {
					h.joined(third)
				}
				where := h.info.Namespace
				if c.where == web {
					where = netns.OfProcess(h.webPID)
				}
				run(t, where, c.command)
				if leaves {
					err := again(func() error { return h.networks.Leave(t.Context(), h.spec.ID, "7-1") })
					if err != nil {
						t.Error(err)
					}
				} else {
					h.joined(third)
				}
				if drift := h.drift(); (drift != "") != c.left {
					t.Errorf("drift is %q", drift)
				}
				h.mends(t)
			})
		}
	}
}

// mends fails unless making the network again makes it right.
func (h *household) mends(t *testing.T) {
	t.Helper()
	if info := h.create(); info.Drift != "" {
		t.Errorf("made again: %s", info.Drift)
	}
	h.works()
}

// create creates the network, or mends it.
func (h *household) create() (info node.NetworkInfo) {
	h.t.Helper()
	err := again(func() (err error) {
		info, err = h.networks.Create(h.t.Context(), h.spec)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return info
}

func (h *household) joined(spec node.MemberSpec) (m node.Member) {
	h.t.Helper()
	err := again(func() (err error) {
		m, err = h.networks.Join(h.t.Context(), spec)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

// again repeats a call while it may succeed later, as the engine does: many networks of this process change rules
// of one namespace, and reading these waits for a moment without changes.
func again(call func() error) error {
	for began := time.Now(); ; <-time.After(100 * time.Millisecond) {
		if err := call(); node.KindOf(err) != node.Transient || time.Since(began) > 2*time.Minute {
			return err
		}
	}
}

func TestVanishedNamespace(t *testing.T) {
	h := newHousehold(t)
	if err := unix.Unmount(h.info.Namespace, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	h.drifts("namespace is gone")
	h.mends(t)
}

// TestTheKeyIsNotKept: after a restart the module has no private key. It goes
// on without, says so when it needs one, and is given it by the next Create.
func TestTheKeyIsNotKept(t *testing.T) {
	h := newHousehold(t)
	h.restart()
	if drift := h.drift(); drift != "" {
		t.Errorf("after a restart: %s", drift)
	}
	h.works()
	err := filepath.WalkDir(filepath.Dir(h.cfg.Dir), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == h.info.Namespace {
			return err
		}
		raw, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(raw), h.spec.PrivateKey) {
			t.Errorf("%s holds the private key", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, h.info.Namespace, "ip link del wg0")
	h.drifts("wg0") // a tunnel that nobody has the key of is gone
	h.mends(t)
}

// TestTheCarrierIsKilled: what it held is back by itself, while the network
// goes on: its links, addresses and routes never went.
func TestTheCarrierIsKilled(t *testing.T) {
	h := newHousehold(t)
	before := h.carrier(t)
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for {
		status, err := h.networks.Status(t.Context())
		if err == nil && status.Carrier != 0 && int(status.Carrier) != before && h.drift() == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not back: %+v, %v, %s", status, err, h.drift())
		}
	}
	h.works()
}

// carrier is the process ID of the carrier, which the module starts by itself when there is
// none.
func (h *household) carrier(t *testing.T) int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		status, err := h.networks.Status(t.Context())
		if err == nil && status.Carrier != 0 {
			return int(status.Carrier)
		}
		if time.Now().After(deadline) {
			t.Fatalf("there is no carrier: %+v, %v", status, err)
		}
	}
}

// TestTheNodesOwnRules: the module mends the node's part by itself.
func TestTheNodesOwnRules(t *testing.T) {
	for name, command := range map[string]string{
		"its table is gone":   "nft flush ruleset",
		"it doesn't forward":  "sysctl -w net.ipv4.ip_forward=0",
		"nor does it in IPv6": "sysctl -w net.ipv6.conf.all.forwarding=0",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHousehold(t)
			run(t, "/proc/self/ns/net", command)
			status, err := h.networks.Status(t.Context())
			if err != nil || status.Drift == "" {
				t.Errorf("%v, drift is %q", err, status.Drift)
			}
			deadline := time.Now().Add(patience)
			for status.Drift != "" && time.Now().Before(deadline) {
				if status, err = h.networks.Status(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if status.Drift != "" {
				t.Errorf("after %s: %s", patience, status.Drift)
			}
		})
	}
}

// TestAMemberWhoseProcessEnded is told, and keeps its place until it comes
// again or leaves.
func TestAMemberWhoseProcessEnded(t *testing.T) {
	h := newHousehold(t)
	ended := process(t)
	if _, err := h.networks.Join(t.Context(), node.MemberSpec{Network: h.spec.ID, Member: "7-1", PID: ended, IPs: []string{"10.1.2.70"}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(int(ended), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for {
		list, err := h.networks.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if last := list[0].Members[2]; last.Drift != "" && list[0].Drift == "" && last.IPv4 == "10.1.2.70" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("listed %+v", list)
		}
	}
	_, err := h.networks.Join(t.Context(), node.MemberSpec{Network: h.spec.ID, Member: "8-1", PID: h.catPID, IPs: []string{"10.1.2.70"}})
	if node.KindOf(err) != node.Refused {
		t.Errorf("its address was given away: %v", err)
	}
	again, err := h.networks.Join(t.Context(), node.MemberSpec{Network: h.spec.ID, Member: "7-1", PID: process(t)})
	if err != nil || again.IPv4 != "10.1.2.70" || again.Drift != "" {
		t.Errorf("it came again: %+v, %v", again, err)
	}
	h.works()
}

// TestVanishedLink: the kernel removes the other ends of a namespace's
// pairs some time after its last process ended, also between a look and a removal.
func TestVanishedLink(t *testing.T) {
	lab := netlab.New(t)
	a, b := lab.Namespace("a"), lab.Namespace("b")
	lab.Veth(a, "m2", b, "eth0")
	found := a.Link("m2")
	if err := b.Netlink().LinkDel(b.Link("eth0")); err != nil {
		t.Fatal(err)
	}
	if err := a.Netlink().LinkDel(found); err == nil || !links.IsNoLink(err) {
		t.Errorf("removing it: %v counts as a failure", err)
	}
	if _, err := a.Netlink().LinkByName("m2"); !links.IsNoLink(err) {
		t.Errorf("looking for it: %v counts as a failure", err)
	}
}

// TestTheTunnelOfAnotherWireGuard: what the carrier finds in its place, such
// as the kernel's link of a kernel that had WireGuard, gives way.
func TestTheTunnelOfAnotherWireGuard(t *testing.T) {
	h := newHousehold(t)
	run(t, h.info.Namespace, "ip link del wg0")
	run(t, h.info.Namespace, "ip link add wg0 type veth peer name wg1")
	h.mends(t)
}

// TestTheNodeComesIntoItsRange: a network that is there stays, and can be
// mended; only a new one is refused.
func TestTheNodeComesIntoItsRange(t *testing.T) {
	var own []netip.Prefix
	f := newFixture(t, func(c *network.Config) { c.Own = func() ([]netip.Prefix, error) { return own, nil } })
	spec := conformance.NetworkSpec(t, "net1", "10.1.2.0/24", port(t))
	if _, err := f.networks.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	own = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	spec.Label = "2-1"
	if info, err := f.networks.Create(t.Context(), spec); err != nil || info.Label != "2-1" {
		t.Errorf("the one that is there: %+v, %v", info, err)
	}
	_, err := f.networks.Create(t.Context(), conformance.NetworkSpec(t, "net2", "10.1.3.0/24", port(t)))
	if node.KindOf(err) != node.Refused || !strings.Contains(err.Error(), `"net2"`) || strings.Contains(err.Error(), "10.1.0.0") {
		t.Errorf("a new one: %v", err)
	}
}

// Members that come and go at the same time are where they should be.
func TestMembersAtOnce(t *testing.T) {
	h := newHousehold(t)
	const many = 8
	var work sync.WaitGroup
	for i := range many {
		pid := process(t)
		work.Go(func() {
			spec := node.MemberSpec{Network: h.spec.ID, Member: fmt.Sprintf("%d-7", i), Name: fmt.Sprintf("m%d", i), PID: pid}
			for range 3 {
				if _, err := h.networks.Join(t.Context(), spec); err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					if err := h.networks.Leave(t.Context(), h.spec.ID, spec.Member); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	work.Wait()
	list, err := h.networks.List(t.Context())
	if err != nil || len(list) != 1 || len(list[0].Members) != 2+many/2 || list[0].Drift != "" {
		t.Errorf("%+v, %v", list, err)
	}
	h.works()
}
