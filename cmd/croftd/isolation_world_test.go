package main_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// place is a sender or receiver of probes.
type place struct {
	ns       string
	ip4, ip6 string
}

// isolation is a world of tenants and of forbidden destinations. Routes lead everywhere: only croft's
// rules block anything.
//
//	far, out, peer ── hub ── node ─┬─ lan (the farm's)
//	                               ├─ A ── a1, a2, vm (a tap), pa (public too); peer, by a tunnel
//	                               ├─ B ── b1, pb (public too)    a user B's, of another range
//	                               ├─ C ── c1, c2                 user B's, of A's range
//	                               └─ D ── d1                     user B's, on another node of the machine
type isolation struct {
	*nodetest.Internet
	*probes
	one, two *nodetest.Node
	at       *netlab.Namespace
	places   map[string]place
	networks map[string]node.NetworkInfo
	health   int
}

// Ports of the listeners, on the node and everywhere: as ssh's, redis's and one more.
const (
	sshPort, redisPort, plainPort = 22, 6379, 7000
	publicRange                   = "2001:db8:7::/64"
)

func newIsolation(t *testing.T) *isolation {
	t.Helper()
	t.Parallel()
	w := &isolation{Internet: nodetest.NewInternet(t, bins), probes: newProbes(t), places: map[string]place{}, networks: map[string]node.NetworkInfo{}}
	w.outside()
	w.startNodes()
	w.reserve()
	w.join()
	w.listen()
	return w
}

// dual connects a host with both families to the internet.
func (w *isolation) dual(name, last string) *netlab.Namespace {
	h := w.Host(name, "203.0.113."+last)
	h.Addr("eth0", "2001:db8:113::"+last+"/64")
	h.Route("::/0", "2001:db8:113::1")
	w.places[name] = place{h.Path(), "203.0.113." + last, "2001:db8:113::" + last}
	return h
}

// outside makes the places outside the node: the internet, the farm's own network, and non-public
// addresses that are reached through the internet.
func (w *isolation) outside() {
	w.Hub.Forward()
	w.Hub.Addr("br0", "2001:db8:113::1/64")
	w.Hub.Addr("br0", "172.31.5.1/24")
	w.Hub.Addr("br0", "169.254.169.254/32")
	w.Hub.Addr("br0", "198.51.100.7/32")
	w.Hub.Addr("br0", "2001:db8:51::7/128")
	w.places["far"] = place{w.Hub.Path(), "198.51.100.7", "2001:db8:51::7"}
	w.places["the explorer's private side"] = place{w.Hub.Path(), "172.31.5.1", ""}
	w.places["the cloud's metadata"] = place{w.Hub.Path(), "169.254.169.254", ""}
	out := w.dual("out", "80")
	out.Addr("eth0", "169.254.99.1/32")
	w.Hub.RouteVia("169.254.99.1/32", "br0", "")
	w.places["another node's uplink"] = place{out.Path(), "169.254.99.1", ""}
	w.at = w.dual("node", "11")
	w.dual("peer", "90")
	lan := w.Lab.Namespace("lan")
	w.Lab.Veth(w.at, "lan0", lan, "eth0")
	w.at.Addr("lan0", "192.168.77.2/24")
	w.at.Addr("lan0", "fd77::2/64")
	lan.Addr("eth0", "192.168.77.9/24")
	lan.Addr("eth0", "fd77::9/64")
	lan.Route("0.0.0.0/0", "192.168.77.2")
	lan.Route("::/0", "fd77::2")
	w.places["lan"] = place{lan.Path(), "192.168.77.9", "fd77::9"}
	w.places["the node on the lan"] = place{w.at.Path(), "192.168.77.2", "fd77::2"}
	w.Hub.Route(publicRange, "2001:db8:113::11")
}

// startNodes starts two nodes on one machine.
func (w *isolation) startNodes() {
	args := []string{"--allow-private", nodetest.Public + ",2001:db8::/32,198.51.100.0/24"}
	before := w.Namespace
	w.Namespace = w.at.Path()
	w.one = w.NewNode("n1", append(slices.Clone(args), "--public-ip6-range", publicRange, "--health-listen", "0.0.0.0:0")...)
	w.two = w.NewNode("n2", args...)
	w.Namespace = before
	for _, n := range []*nodetest.Node{w.one, w.two} {
		n.Start()
	}
	for _, n := range []*nodetest.Node{w.one, w.two} {
		n.WaitReady()
		n.WaitRegistered()
	}
	address, err := netip.ParseAddrPort(w.one.Address())
	if err != nil {
		w.Fatal(err)
	}
	w.health = int(address.Port())
}

// reserve makes the networks, of two users.
func (w *isolation) reserve() {
	other, err := sign.Generate()
	if err != nil {
		w.Fatal(err)
	}
	external := w.Part(nil, "10.1.9.0/24", 0, "")
	// It may claim any address: its own range mustn't be what stops it.
	external.Behind = []string{"0.0.0.0/0", "::/0"}
	for _, n := range []struct {
		short, name, ipRange, subnet string
		user                         sign.KeyPair
		on                           *nodetest.Node
		port                         uint16
	}{
		{"A", "net1", "", "10.1.2.0/24", w.User, w.one, 3001},
		{"B", "net1", "10.2.0.0/16", "10.2.3.0/24", other, w.one, 3002},
		{"C", "net2", "", "10.1.2.0/24", other, w.one, 3003},
		{"D", "net4", "10.4.0.0/16", "10.4.5.0/24", other, w.two, 3004},
	} {
		part := w.Part(n.on, n.subnet, n.port, "")
		part.IPRange = n.ipRange
		parts := []*nodetest.Part{part}
		if n.short == "A" {
			parts = append(parts, external)
			defer w.tunnel(part, external)
		}
		r := w.Push(w.Networks(n.user, n.name, parts...)[0])
		w.Result(r, workload.StateOK)
		w.know(n.short, n.on, nodetest.NetworkID(n.user, n.name))
	}
}

// know records a network and its addresses, and adds the node's routes to it.
func (w *isolation) know(short string, on *nodetest.Node, id string) {
	networks, _ := on.Modules()
	list, err := networks.List(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	i := slices.IndexFunc(list, func(n node.NetworkInfo) bool { return n.ID == id })
	n := list[i]
	w.networks[short] = n
	own := w.addresses(n.Namespace, "up0")
	ours := place{ns: w.at.Path()}
	for _, a := range own {
		// A link of two addresses: the node's is the even one.
		if a.Is4() {
			ours.ip4 = a.Prev().String()
		} else {
			ours.ip6 = a.Prev().String()
		}
	}
	w.places[short+"'s uplink at the node"] = ours
	w.places[short+"'s uplink"] = place{n.Namespace, own[0].String(), own[1].String()}
	w.places[short+"'s gateway"] = place{n.Namespace, n.Gateway, n.Gateway6}
	if short != "C" { // C has A's range: the node's route leads to A
		w.at.Route(n.Subnet, own[0].String())
	}
	w.at.Route(netip.PrefixFrom(netip.MustParseAddr(n.Gateway6), 64).Masked().String(), own[1].String())
}

// addresses are the IPv4 and the IPv6 address of a link, without link-local ones.
func (w *isolation) addresses(ns, link string) [2]netip.Addr {
	w.Helper()
	var out [2]netip.Addr
	err := netns.Do(ns, func() error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		all, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		for _, a := range all {
			at, _ := netip.AddrFromSlice(a.IP)
			if at = at.Unmap(); at.Is4() {
				out[0] = at
			} else if !at.IsLinkLocalUnicast() {
				out[1] = at
			}
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return out
}

// join adds the members to the networks.
func (w *isolation) join() {
	for _, m := range []struct {
		name, network, ip string
		public            bool
	}{
		{"a1", "A", "10.1.2.2", false}, {"a2", "A", "10.1.2.3", false}, {"pa", "A", "10.1.2.5", true},
		{"b1", "B", "10.2.3.2", false}, {"pb", "B", "10.2.3.5", true},
		{"c1", "C", "10.1.2.2", false}, {"c2", "C", "10.1.2.3", false},
		{"d1", "D", "10.4.5.2", false},
	} {
		on := w.one
		if m.network == "D" {
			on = w.two
		}
		spec := node.MemberSpec{Network: w.networks[m.network].ID, Member: m.name, IPs: []string{m.ip}, PublicIP6: m.public}
		joined := on.Join(spec)
		w.places[m.name] = place{joined.Path(), joined.IPv4, joined.IPv6}
		w.places[m.name+" by IPv6"] = place{joined.Path(), "", joined.IPv6}
		if m.public {
			// By its private addresses, and by its public one.
			w.places[m.name+" in public"] = place{joined.Path(), "", joined.PublicIPv6}
		}
	}
	w.machine()
}

// machine is a VM: croft's tap is wired to another tap, in a namespace that plays the VM.
func (w *isolation) machine() {
	_, taps := w.one.Modules()
	made, err := taps.Setup(w.Context(), node.TapSpec{Network: w.networks["A"].ID, VM: "vm", IP: "10.1.2.4"})
	if err != nil {
		w.Fatal(err)
	}
	ns := w.Lab.Namespace("vm")
	card := ns.Tap("eth0")
	ns.SetMAC("eth0", made.MAC)
	ns.Addr("eth0", made.IPv4+"/24")
	ns.Addr("eth0", made.IPv6+"/64")
	ns.Route("0.0.0.0/0", made.Gateway)
	ns.Route("::/0", made.Gateway6)
	w.places["vm"] = place{ns.Path(), made.IPv4, made.IPv6}
	w.wire(card, w.openTap(made.Namespace, made.Device))
}

// tunnel sets up the external peer's end, which routes all traffic to croft's tenants through it.
func (w *isolation) tunnel(part, external *nodetest.Part) {
	ns := w.places["peer"].ns
	var end tun.Device
	err := netns.Do(ns, func() (err error) {
		end, err = tun.CreateTUN("wg0", 1420)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	d := device.NewDevice(end, insideBind{conn.NewStdNetBind(), ns}, device.NewLogger(device.LogLevelSilent, ""))
	w.Cleanup(d.Close)
	config := fmt.Sprintf("private_key=%s\npublic_key=%s\nendpoint=203.0.113.11:%d\nallowed_ip=0.0.0.0/0\nallowed_ip=::/0\n",
		hexKey(external.Private), hexKey(part.Public), part.Port)
	if err = d.IpcSet(config); err == nil {
		err = d.Up()
	}
	if err != nil {
		w.Fatal(err)
	}
	prefix6 := workload.NetworkPrefix6(w.User.ID(), "net1")
	ip6 := workload.Address6(prefix6, netip.MustParsePrefix(external.Subnet), netip.MustParseAddr("10.1.9.2"))
	w.places["peer in A"] = place{ns, "10.1.9.2", ip6.String()}
	w.inNamespace(ns, "ip", "link", "set", "wg0", "up")
	for _, a := range []string{"10.1.9.2/24", ip6.String() + "/64"} {
		w.inNamespace(ns, "ip", "addr", "add", a, "dev", "wg0", "nodad")
	}
	for _, to := range []string{"10.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16", "198.51.100.7/32"} {
		w.inNamespace(ns, "ip", "route", "add", to, "dev", "wg0", "src", "10.1.9.2")
	}
	for _, to := range []string{"fc00::/7", "2001:db8:51::7/128"} {
		w.inNamespace(ns, "ip", "-6", "route", "add", to, "dev", "wg0", "src", ip6.String())
	}
}

// insideBind opens its sockets in a namespace.
type insideBind struct {
	conn.Bind
	ns string
}

func (b insideBind) Open(port uint16) (fns []conn.ReceiveFunc, actual uint16, err error) {
	err = netns.Do(b.ns, func() (err error) {
		fns, actual, err = b.Bind.Open(port)
		return err
	})
	return fns, actual, err
}

func hexKey(text string) string {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return hex.EncodeToString(raw)
}

// inNamespace runs a command in a network namespace and returns its output.
func (w *isolation) inNamespace(ns string, command ...string) string {
	w.Helper()
	return w.feed(ns, "", command...)
}

// feed is inNamespace with standard input.
func (w *isolation) feed(ns, input string, command ...string) string {
	w.Helper()
	cmd := exec.Command("nsenter", append([]string{"--net=" + ns, "--"}, command...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("%q: %v: %s", command, err, out)
	}
	return string(out)
}

// listen starts listeners in all places.
func (w *isolation) listen() {
	done := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(w.places)) { // "c1" before "c1 by IPv6"
		at := w.places[name]
		if done[at.ns] || at.ns == w.at.Path() {
			continue
		}
		done[at.ns] = true
		w.serve(at.ns, name, plainPort)
	}
	w.serve(w.at.Path(), "node", sshPort, redisPort, plainPort)
}

// wire copies frames between a plain tap and one whose frames have a header, until the test ends.
func (w *isolation) wire(plain, headed *os.File) {
	const header = 10
	done := make(chan struct{}, 2)
	carry := func(from, to *os.File, change func([]byte) []byte) {
		defer func() { done <- struct{}{} }()
		buffer := make([]byte, 1<<16)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			_, _ = to.Write(change(buffer[:n]))
		}
	}
	go carry(plain, headed, func(f []byte) []byte { return append(make([]byte, header), f...) })
	go carry(headed, plain, func(f []byte) []byte { return f[min(header, len(f)):] })
	w.Cleanup(func() {
		for _, c := range []io.Closer{plain, headed} {
			_ = c.Close()
		}
		<-done
		<-done
	})
}
