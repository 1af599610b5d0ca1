package firewall

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// manyPorts are ports beside those of the world.
func manyPorts(n int) []Port {
	var out []Port
	for i := range n {
		b, c := byte(i>>8), byte(i)
		out = append(out, Port{
			Name: fmt.Sprintf("mm%d", i), MAC: net.HardwareAddr{2, 0, 0, 1, b, c},
			IPs: []netip.Addr{
				netip.AddrFrom4([4]byte{10, 1, 100 + b, c}),
				netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x11, 13: 1, 14: b, 15: c}),
			},
		})
	}
	return out
}

// While all rules are replaced again and again, an allowed connection goes on,
// and forbidden packets don't slip through.
func TestReplacingIsAtomic(t *testing.T) {
	const times = 60
	w := newWorld(t)
	w.serveAll()
	w.applyAll()
	listener := w.ns["out"].ListenTCP(outIP + ":5000")
	conn, err := w.ns["a1"].DialTCP(outIP+":5000", patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	other, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()

	var running sync.WaitGroup
	defer running.Wait()
	stop := make(chan struct{})
	// Forbidden flows: one of each kind.
	forbidden := []flow{
		{from: "a1", to: nodeIP, port: udpPort, why: "the node's input"},
		{from: "a1", to: "10.1.2.2", port: udpPort, why: "the node's forward"},
		{from: "a1", to: "10.99.0.9", port: udpPort, why: "what is refused"},
		{from: "node", to: "10.1.1.2", port: udpPort, why: "the network's forward"},
		{from: "node", to: "169.254.64.1", port: otherPort, why: "the network's input"},
		{from: "a1", source: "10.1.1.77", to: "10.1.1.3", port: udpPort, why: "the bridge"},
	}
	w.ns["a1"].Addr("eth0", "10.1.1.77/24")
	for _, f := range forbidden {
		var packets net.Conn
		w.ns[f.from].Do(func() {
			dialer := net.Dialer{}
			if f.source != "" {
				dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(f.source), 0))
			}
			packets, err = dialer.Dial("udp", f.address())
		})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			defer packets.Close()
			for {
				select {
				case <-stop:
					return
				case <-time.After(200 * time.Microsecond):
					_, _ = packets.Write([]byte(f.why))
				}
			}
		})
	}
	rules, echoed := w.rulesA(), make([]byte, 8)
	for i := range times {
		rules.Ports = append(rules.Ports[:2:2], manyPorts(i)...)
		w.apply("A", rules.tables())
		w.apply("node", nodeRules().tables())
		want := fmt.Sprintf("%08d", i)
		for _, hop := range []struct{ from, to net.Conn }{{conn, other}, {other, conn}} {
			_ = hop.to.SetReadDeadline(time.Now().Add(patience))
			if _, err := hop.from.Write([]byte(want)); err != nil {
				t.Fatalf("the connection ended at replacement %d: %v", i, err)
			}
			if _, err := io.ReadFull(hop.to, echoed); err != nil || string(echoed) != want {
				t.Fatalf("the connection brought %q, %v at replacement %d", echoed, err, i)
			}
		}
	}
	close(stop)
	running.Wait()
	for _, f := range forbidden {
		if w.heard.has(f.why) {
			t.Errorf("while rules were replaced this slipped through: %s", f)
		}
	}
}

func TestTablesOfOthersStayAsTheyAre(t *testing.T) {
	w := newWorld(t)
	for ns, run := range map[string]func(){
		"node": func() {
			w.apply("node", nodeRules().tables())
			w.apply("node", nodeRules().tables())
			if err := RemoveNode(w.ns["node"].Path(), table1); err != nil {
				t.Fatal(err)
			}
		},
		"A": func() {
			w.apply("A", w.rulesA().tables())
			w.apply("A", w.rulesA(manyPorts(3)...).tables())
		},
	} {
		n := w.ns[ns]
		foreign := []string{"inet other", "ip other", "ip croft", "inet croft-other"}
		for _, name := range foreign {
			n.Run("nft", `add table `+name+`; table `+name+` {
				set some { type ipv4_addr; flags interval; elements = { 10.0.0.0/8 }; }
				chain there { ip saddr @some counter packets 5 bytes 500 accept; }
			}`)
		}
		show := func() (out string) {
			for _, name := range foreign {
				out += n.Run("nft", "-a", "list table "+name)
			}
			return out
		}
		before := show()
		run()
		if after := show(); after != before {
			t.Errorf("%s: other tables were\n%s\nand are\n%s", ns, before, after)
		}
		if !strings.Contains(before, "packets 5 bytes 500") {
			t.Fatalf("%s: nothing is shown that could change: %s", ns, before)
		}
	}
}

func TestRemoveNode(t *testing.T) {
	w := newWorld(t)
	path := w.ns["node"].Path()
	w.apply("node", nodeRules().tables())
	if err := RemoveNode(path, table1); err != nil {
		t.Fatal(err)
	}
	if out := w.ns["node"].Run("nft", "list ruleset"); strings.Contains(out, table1) {
		t.Errorf("it is still there: %s", out)
	}
	if err := RemoveNode(path, table1); node.KindOf(err) != node.NotExist {
		t.Errorf("twice: %v, must be NotExist", err)
	}
	if err := RemoveNode(path+"-gone", table1); node.KindOf(err) != node.NotExist {
		t.Errorf("in a namespace that is gone: %v, must be NotExist", err)
	}
}

func TestInvalidNamespaces(t *testing.T) {
	w := newWorld(t)
	if _, err := ApplyNetwork(w.ns["A"].Path()+"-gone", w.rulesA()); node.KindOf(err) != node.NotExist {
		t.Errorf("apply: %v, must be NotExist", err)
	}
	if _, err := ApplyNetwork("/dev/null", w.rulesA()); err == nil {
		t.Error("apply to what is no namespace has worked")
	}
	f := w.apply("A", w.rulesA().tables())
	if _, err := Check(w.ns["A"].Path()+"-gone", f); node.KindOf(err) != node.NotExist {
		t.Errorf("check: %v, must be NotExist", err)
	}
}

// The namespace of the process is that of the calling thread, too.
func TestTheNamespaceOfTheProcess(t *testing.T) {
	w := newWorld(t)
	w.ns["node"].Do(func() {
		f, err := ApplyNode("", nodeRules())
		if err != nil {
			t.Fatal(err)
		}
		if found, err := Check("", f); err != nil || found.Drift != "" {
			t.Errorf("drift is %q, %v", found.Drift, err)
		}
	})
	if out := w.ns["node"].Run("nft", "list ruleset"); !strings.Contains(out, table1) {
		t.Errorf("it isn't there: %s", out)
	}
}

func TestManyPortsAndRanges(t *testing.T) {
	w := newWorld(t)
	w.serveAll()
	few := w.apply("A", w.rulesA().tables())
	many := w.apply("A", w.rulesA(manyPorts(250)...).tables())
	if a, b := chainsOf(t, few), chainsOf(t, many); a != b || a == "" {
		t.Errorf("the rules grow with the ports:\n%s\n%s", a, b)
	}
	n := nodeRules()
	few = w.apply("node", n.tables())
	for i := range 100 {
		n.Refuse = append(n.Refuse,
			netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, byte(i), 0}), 24+i%9),
			netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0x20, 1: 0x02, 2: byte(i)}), 24+i))
		n.Allow = append(n.Allow, Allowed{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 7, 0}), 24), Port: uint16(i)})
	}
	many = w.apply("node", n.tables())
	if a, b := chainsOf(t, few), chainsOf(t, many); a != b || a == "" {
		t.Errorf("the rules grow with the ranges:\n%s\n%s", a, b)
	}
	for _, f := range []flow{
		{from: "a1", to: outIP, network: "tcp", port: udpPort, why: "members reach the outside"},
		{from: "a1", to: "10.1.1.3", network: "udp", port: udpPort, why: "members meet"},
	} {
		if ok, _ := w.answered(f, patience); !ok {
			t.Errorf("must pass: %s", f)
		}
	}
}

func chainsOf(t *testing.T, f Fingerprint) string {
	t.Helper()
	var out []string
	for _, line := range strings.Split(string(f), "\n") {
		if strings.HasPrefix(line, "chain ") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// Applying to many networks at the same time, as a node that starts does.
func TestAtTheSameTime(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	for i := range 8 {
		ns := []string{"A", "B"}[i%2]
		all.Go(func() {
			for range 5 {
				// Two at once in one namespace: one of them may be told to try again.
				f, err := ApplyNetwork(w.ns[ns].Path(), w.rulesA())
				if err == nil {
					_, err = Check(w.ns[ns].Path(), f)
				}
				if err != nil && node.KindOf(err) != node.Transient {
					t.Errorf("%v: %v", node.KindOf(err), err)
				}
			}
		})
	}
	all.Wait()
	if found, err := Check(w.ns["A"].Path(), w.apply("A", w.rulesA().tables())); err != nil || found.Drift != "" {
		t.Errorf("drift is %q, %v", found.Drift, err)
	}
}

// What a member's peer may send it at once is what fits the tunnel.
func TestSegmentsFitTheTunnel(t *testing.T) {
	const mtu, headers = 1280, 40
	w := newWorld(t)
	a := w.ns["A"]
	if err := a.Netlink().LinkSetMTU(a.Link("wg0"), mtu); err != nil {
		t.Fatal(err)
	}
	listener := w.ns["peer"].ListenTCP("10.1.9.2:5000")
	segments := func() (member, peer int) {
		t.Helper()
		conn, err := w.ns["a1"].DialTCP("10.1.9.2:5000", patience)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		other, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		return segment(t, conn), segment(t, other)
	}
	if member, peer := segments(); member <= mtu-headers || peer <= mtu-headers {
		t.Errorf("the world is broken: without rules segments are of %d and %d bytes", member, peer)
	}
	w.applyAll()
	if member, peer := segments(); member > mtu-headers || peer > mtu-headers {
		t.Errorf("segments are of %d and %d bytes, at most %d fit", member, peer, mtu-headers)
	}
}

func segment(t *testing.T, conn net.Conn) int {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var size int
	if failed := raw.Control(func(fd uintptr) {
		size, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	}); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	return size
}
