package main_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/netns"
)

// row is a line of the specification: which places may reach which others, or mustn't.
type row struct {
	// from and to are names of places, separated by commas: each to each. to may be an address.
	from, to string
	// kinds are the kinds of flows, by default TCP, UDP and ping.
	kinds string
	// port is plainPort by default.
	port int
	// source is the sender's source address when it isn't its own.
	source string
	why    string
}

func (r row) say(f flow) string {
	as := ""
	if f.source != "" {
		as = " as " + f.source
	}
	return fmt.Sprintf("%s%s to %s (%s, %s %d): %s", f.sender, as, f.receiver, f.to, f.kind, f.port, r.why)
}

// flows are a row's flows, in each family that both ends have.
func (w *isolation) flows(r row) []flow {
	w.Helper()
	kinds, port := r.kinds, r.port
	if kinds == "" {
		kinds = "tcp udp ping"
	}
	if port == 0 {
		port = plainPort
	}
	var out []flow
	for from := range strings.SplitSeq(r.from, ", ") {
		for to := range strings.SplitSeq(r.to, ", ") {
			for _, pair := range w.pairs(from, to) {
				for kind := range strings.FieldsSeq(kinds) {
					out = append(out, flow{sender: from, receiver: to, from: w.places[from].ns, source: r.source, to: pair, kind: kind, port: port})
				}
			}
		}
	}
	if len(out) == 0 {
		w.Fatalf("nobody is asked by the row %+v", r)
	}
	return out
}

func (w *isolation) pairs(from, to string) []string {
	w.Helper()
	a, known := w.places[from]
	if !known {
		w.Fatalf("there is no place %q", from)
	}
	if at, err := netip.ParseAddr(to); err == nil {
		return []string{at.String()}
	}
	b, known := w.places[to]
	if !known {
		w.Fatalf("there is no place %q", to)
	}
	var out []string
	if a.ip4 != "" && b.ip4 != "" {
		out = append(out, b.ip4)
	}
	if a.ip6 != "" && b.ip6 != "" {
		out = append(out, b.ip6)
	}
	return out
}

// The node's own places, by its addresses.
const theNode = "node, the node on the lan, A's uplink at the node, B's uplink at the node, D's uplink at the node"

func mayReach() []row {
	return []row{
		{from: "a1, a2, vm, b1, c1, d1", to: "far, out", why: "members reach the outside"},
		{from: "a1", to: "a2, vm", why: "members of one network meet"},
		{from: "vm", to: "a1, a2", why: "a VM is a member"},
		{from: "c1", to: "c2", why: "members of one network meet"},
		{from: "a1, vm", to: "A's gateway", kinds: "ping", why: "the gateway answers pings"},
		{from: "a1, vm", to: "A's gateway", kinds: "dns", port: 53, why: "the gateway answers DNS"},
		{from: "a1, vm", to: "peer in A", why: "members reach their peers"},
		{from: "peer in A", to: "a1, vm", why: "peers reach the members"},
		{from: "peer in A", to: "A's gateway", kinds: "ping", why: "the gateway answers peers' pings"},
		{from: "pa in public, pb in public", to: "far, out", why: "a public member reaches the outside"},
		{from: "out, far", to: "pa in public, pb in public", why: "the outside reaches a public member"},
		{from: "pa", to: "a1, far", why: "a public member is a member"},
	}
}

// controls show that forbidden destinations exist, by reaching them from permitted places.
func controls() []row {
	return []row{
		{from: "lan", to: "node, the node on the lan", kinds: "tcp udp", port: sshPort, why: "control: the node's services are open"},
		{from: "lan", to: "node, the node on the lan", kinds: "tcp", port: redisPort, why: "control: the node's services are open"},
		{from: "lan, node", to: "node, the node on the lan", kinds: "ping", why: "control: the node answers"},
		{from: "node", to: "lan", why: "control: the farm's network answers the node"},
		{from: "node", to: "the explorer's private side, the cloud's metadata", why: "control: it answers the node"},
		{from: "node", to: "another node's uplink", kinds: "udp", why: "control: it is there"},
		{from: "out", to: "node", kinds: "tcp udp ping", why: "control: the node's services are open"},
	}
}

func mayNotReach(health int) []row {
	return []row{
		{from: "a1, vm, pa", to: "b1, c1 by IPv6, d1, B's gateway, D's gateway", why: "tenants don't meet"},
		{from: "a1, vm", to: "B's gateway, D's gateway", kinds: "dns", port: 53, why: "no tenant uses another's gateway"},
		{from: "a1, vm", to: "B's uplink, C's uplink, D's uplink", why: "no tenant is reached by its uplink"},
		{from: "a1, vm", to: "B's uplink, C's uplink, D's uplink", kinds: "dns", port: 53, why: "no DNS is reached by an uplink"},
		{from: "b1, d1, c1 by IPv6", to: "a1, A's gateway, A's uplink", why: "tenants don't meet"},
		{from: "a1, vm, pa, b1, d1", to: theNode, why: "no service of the node is reached"},
		{from: "a1, vm", to: theNode, kinds: "tcp udp", port: sshPort, why: "nor its ssh"},
		{from: "a1, vm", to: theNode, kinds: "tcp", port: redisPort, why: "nor a bus on TCP"},
		{from: "a1, vm", to: "node, A's uplink at the node", kinds: "http", port: health, why: "nor its health"},
		{from: "a1, vm", to: "A's gateway", kinds: "tcp udp", why: "the gateway answers nothing but DNS and pings"},
		{from: "a1, vm, pa", to: "lan", why: "the farm's own network isn't reached"},
		{from: "a1, vm", to: "the explorer's private side, the cloud's metadata, another node's uplink", why: "what isn't public is refused"},
		{from: "pa in public", to: "pb in public", why: "public members of one node don't meet on it"},
		{from: "a1, b1", to: "pa in public, pb in public", why: "tenants don't meet by the public side"},
		{from: "pa in public", to: "node", why: "no service of the node is reached by the public side"},
		{from: "pa in public", to: "lan, B's uplink, D's uplink, B's gateway", why: "the public side leads to the public only"},
		{from: "out, far, lan", to: "a1, vm, b1, d1", why: "nobody outside reaches a member"},
		{from: "out, far, lan", to: "A's gateway, A's uplink, B's uplink", why: "nobody outside reaches a network"},
		{from: "out, far, lan, node", to: "A's gateway, A's uplink", kinds: "dns", port: 53, why: "DNS is for members"},
		{from: "out", to: "lan", kinds: "udp", why: "that the node forwards for tenants doesn't open the farm's network"},
		{from: "lan", to: "far", kinds: "udp", why: "nor is the node a router for others"},
		{from: "node", to: "a1, vm, A's uplink", why: "not even the node reaches a network"},
		{from: "peer in A", to: "A's gateway", kinds: "tcp udp", why: "the gateway has nothing for peers"},
		{from: "peer in A", to: "A's gateway, A's uplink", kinds: "dns", port: 53, why: "peers use their own DNS"},
		{from: "peer in A", to: "b1, d1, B's gateway, B's uplink", why: "a peer doesn't get to another network"},
		{from: "peer in A", to: "A's uplink at the node, the node on the lan, lan", why: "a peer doesn't get to the node"},
		{from: "peer in A", to: "far", why: "a peer doesn't leave by this node"},
	}
}

// mayNotSay are packets with a spoofed source address. The sender has that address, so that its kernel
// sends them.
func mayNotSay(w *isolation) []row {
	of6 := func(name string) string { return w.places[name].ip6 }
	own := w.places["A's uplink"]
	return []row{
		{from: "a1", source: "10.1.2.77", to: "10.1.2.3", why: "an address that it gave itself"},
		{from: "a1", source: "10.1.2.77", to: "198.51.100.7", why: "an address that it gave itself"},
		{from: "a1", source: "10.1.2.4", to: "10.1.2.3", why: "a neighbour's address"},
		{from: "a1", source: of6("vm"), to: of6("a2"), why: "a neighbour's address"},
		{from: "a1", source: "10.2.3.2", to: "198.51.100.7", why: "another tenant's address"},
		{from: "vm", source: "10.1.2.2", to: "10.1.2.3", why: "a neighbour's address"},
		{from: "vm", source: "10.1.2.77", to: "198.51.100.7", why: "an address that it gave itself"},
		{from: "peer in A", source: "10.1.2.3", to: "10.1.2.2", why: "a member's address, from the tunnel"},
		{from: "peer in A", source: "10.1.2.99", to: "10.1.2.4", why: "a free address of this node, from the tunnel"},
		{from: "peer in A", source: of6("a2"), to: of6("a1"), why: "a member's address, from the tunnel"},
		{from: "out", source: "10.1.2.3", to: "10.1.2.2", why: "a member's address, from outside"},
		{from: "out", source: own.ip4, to: "10.1.2.2", why: "an uplink's address, from outside"},
		{from: "lan", source: own.ip4, to: "198.51.100.7", why: "an uplink's address, from outside"},
		{from: "lan", source: own.ip6, to: of6("far"), why: "an uplink's address, from outside"},
		{from: "pa", source: "2001:db8:7::bad", to: of6("far"), why: "a public address that it gave itself"},
		{from: "pa", source: of6("pb in public"), to: of6("far"), why: "another one's public address"},
		{from: "pa", source: of6("a1"), to: of6("far"), why: "a private address, in public"},
	}
}

// say gives the senders of these rows the forbidden addresses, and removes them when f is done.
func (w *isolation) say(rows []row, f func()) {
	w.Helper()
	links := map[string]string{"peer in A": "wg0", "pa": "pub0"}
	given := map[string]bool{}
	change := func(what string, r row) {
		command := []string{"ip", "addr", what, r.source + "/128", "dev", cmp.Or(links[r.from], "eth0")}
		if !strings.Contains(r.source, ":") {
			command[3] = r.source + "/32"
		} else if what == "add" {
			command = append(command, "nodad")
		}
		out, err := nodetest.Command(w.places[r.from].ns, command...)
		// The node itself removes addresses that it hasn't assigned. Kernels and versions of ip say that in two ways.
		gone := strings.Contains(string(out), "not found") || strings.Contains(string(out), "Cannot assign requested address")
		if err != nil && !(what == "del" && gone) {
			w.Errorf("%q: %v: %s", command, err, out)
		}
	}
	for _, r := range rows {
		if !given[r.from+r.source] {
			given[r.from+r.source] = true
			change("add", r)
			defer change("del", r)
		}
	}
	f()
}

func TestIsolation(t *testing.T) {
	w := newIsolation(t)
	out := w.places["out"].ns
	for _, to := range []string{"10.0.0.0/8", "169.254.64.0/18", "192.168.0.0/16"} {
		w.inNamespace(out, "ip", "route", "add", to, "via", "203.0.113.11")
		w.inNamespace(w.Hub.Path(), "ip", "route", "add", to, "via", "203.0.113.11")
	}
	w.inNamespace(out, "ip", "-6", "route", "add", "fc00::/7", "via", "2001:db8:113::11")
	w.inNamespace(w.Hub.Path(), "ip", "-6", "route", "add", "fc00::/7", "via", "2001:db8:113::11")

	forbidden := mayNotReach(w.health)
	w.mustPass("allowed", append(mayReach(), controls()...), w.flows)
	w.mustPass("allowed", []row{{from: "lan", to: "node", kinds: "http", port: w.health, why: "control: the node's health is served"}}, w.flows)
	w.mustNot(forbidden, w.flows)
	for member, want := range map[string]string{"a1": "a2", "c1": "c2"} {
		if _, who := w.try(flow{from: w.places[member].ns, to: "10.1.2.3", kind: "tcp", port: plainPort}, patience); who != want {
			t.Errorf("%s meets %q at 10.1.2.3, want %s", member, who, want)
		}
	}
	w.busIsClosed()
	spoofed := mayNotSay(w)
	for i := range spoofed {
		spoofed[i].kinds = "udp"
	}
	w.say(spoofed, func() { w.mustNot(spoofed, w.flows) })
	w.sendFrames(false)
	if believed, port := w.steal(); believed != port {
		t.Errorf("the bridge believes that a2 is at %s, it is at %s", believed, port)
	}
	if w.advertise(quiet) {
		t.Error("the node takes a member for its router")
	}
	w.mustPass("after all that", mayReach(), w.flows)

	w.open()
	w.mustPass("without croft's rules", forbidden, w.flows)
	w.say(spoofed, func() { w.mustPass("without croft's rules", spoofed, w.flows) })
	w.sendFrames(true)
	w.learn()
	// a2 may speak between the theft and the look, and the bridge then believes it again.
	w.Until(nodetest.Soon, "without croft's places the bridge believes a thief", func() bool {
		believed, port := w.steal()
		return believed != port
	})
	if !w.advertise(patience) {
		t.Error("without croft's rules, too, the node doesn't believe a router's advertisement")
	}
}

// busIsClosed checks that the bus isn't reachable from the network.
func (w *isolation) busIsClosed() {
	w.Helper()
	info, err := os.Stat(strings.TrimPrefix(w.one.BusURL(), "unix://"))
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		w.Errorf("the bus is %v (%v), must be a socket of mode 0600", info, err)
	}
	listening := w.inNamespace(w.at.Path(), "ss", "-H", "-ltnp")
	for line := range strings.Lines(listening) {
		if strings.Contains(line, `"croftd"`) && !strings.Contains(line, fmt.Sprintf(":%d ", w.health)) && !strings.Contains(line, "127.0.0.1:") {
			w.Errorf("croftd listens for others: %s", line)
		}
	}
}

// open removes croft's rules, for good, except NAT. Forbidden traffic passes now, unless something
// other than the rules blocked it.
func (w *isolation) open() {
	w.Helper()
	w.one.Kill()
	w.two.Kill()
	w.serve(w.at.Path(), "HTTP/1.0 200", w.health)
	plain := func(leaving ...string) string {
		return "flush ruleset\ntable inet plain {\nchain leave {\ntype nat hook postrouting priority srcnat\n" + strings.Join(leaving, "\n") + "\n}\n}\n"
	}
	w.feed(w.at.Path(), plain("ip saddr 169.254.64.0/18 masquerade", "ip6 saddr fc00::/7 masquerade"), "nft", "-f", "-")
	for _, n := range w.networks {
		w.feed(n.Namespace, plain(`oifname "up0" masquerade`), "nft", "-f", "-")
	}
}

// learn makes A's bridge learn the members' ports.
func (w *isolation) learn() {
	w.Helper()
	ns := w.networks["A"].Namespace
	for _, name := range []string{"a1", "a2"} {
		w.inNamespace(ns, "bridge", "link", "set", "dev", w.portOf(name), "learning", "on")
	}
	mac := w.newWire(w.places["a2"].ns, "eth0").mac
	w.inNamespace(ns, "bridge", "fdb", "del", mac.String(), "dev", w.portOf("a2"), "master")
}

// openTap opens a tap device as QEMU would.
func (w *isolation) openTap(ns, name string) *os.File {
	w.Helper()
	var file *os.File
	err := netns.Do(ns, func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		// Only now, as a file: the poller never wakes a descriptor that was registered before it became a
		// tap's.
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
		file = os.NewFile(uintptr(fd), name)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return file
}
