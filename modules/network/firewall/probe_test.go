package firewall

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	xicmp "golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/croft-edge/croft/internal/testing/netlab"
)

// Waits. Allowed packets pass at once unless the machine is busy; each forbidden
// one costs quiet.
const (
	patience = time.Minute
	quiet    = 150 * time.Millisecond
)

// heard are the texts of probes that came to where they were sent to.
type heard struct {
	sync.Mutex
	last  atomic.Int64
	texts map[string]bool
}

func (h *heard) add(text string) {
	h.Lock()
	defer h.Unlock()
	if h.texts == nil {
		h.texts = map[string]bool{}
	}
	h.texts[text] = true
}

func (h *heard) has(text string) bool {
	h.Lock()
	defer h.Unlock()
	return h.texts[text]
}

func (h *heard) token() string { return fmt.Sprintf("probe-%d", h.last.Add(1)) }

// serve answers at an address of a namespace, on UDP and TCP, with the sender's
// address.
func (w *world) serve(n *netlab.Namespace, address string, port int) {
	w.t.Helper()
	at := netip.AddrPortFrom(netip.MustParseAddr(address), uint16(port)).String()
	packets, listener := n.ListenUDP(at), n.ListenTCP(at)
	var done sync.WaitGroup
	w.t.Cleanup(func() {
		packets.Close()
		listener.Close()
		done.Wait()
	})
	done.Go(func() {
		buf := make([]byte, 1500)
		for {
			size, who, err := packets.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				w.heard.add(string(buf[:size]))
				_, _ = packets.WriteTo([]byte(who.String()), who)
			}
		}
	})
	done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(conn.RemoteAddr().String()))
			conn.Close()
		}
	})
}

// serveAll makes everybody answer at all their addresses.
func (w *world) serveAll() {
	w.t.Helper()
	for _, n := range w.ns {
		links, err := n.Netlink().LinkList()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, link := range links {
			addrs, err := n.Netlink().AddrList(link, 0)
			if err != nil {
				w.t.Fatal(err)
			}
			for _, a := range addrs {
				if a.IP.IsLoopback() || a.IP.IsLinkLocalUnicast() && a.IP.To4() == nil {
					continue
				}
				for _, port := range []int{53, udpPort, otherPort, openPort} {
					w.serve(n, a.IP.String(), port)
				}
			}
		}
	}
}

// answered says whether a flow gets an answer, and which source the other end saw.
func (w *world) answered(f flow, wait time.Duration) (ok bool, seen string) {
	from := w.ns[f.from]
	switch f.network {
	case "udp":
		_, seen = w.askUDP(f, wait, false)
	case "tcp":
		conn, err := from.DialTCP(f.address(), wait)
		if err != nil {
			return false, ""
		}
		defer conn.Close()
		seen = w.answer(conn, wait)
	case "ping":
		return w.ping(from, f.to, wait), ""
	default:
		w.t.Fatalf("no probe for %q", f.network)
	}
	return seen != "", seen
}

// arrives says whether a flow gets to where it is sent to, answered or not.
func (w *world) arrives(f flow, wait time.Duration) bool {
	if f.network != "udp" {
		ok, _ := w.answered(f, wait)
		return ok
	}
	arrived, _ := w.askUDP(f, wait, true)
	return arrived
}

// askUDP asks until it has an answer, or until the question has arrived.
func (w *world) askUDP(f flow, wait time.Duration, oneWay bool) (arrived bool, seen string) {
	from, source, to := w.ns[f.from], f.source, f.address()
	var conn *net.UDPConn
	var err error
	from.Do(func() {
		var local *net.UDPAddr
		if source != "" {
			local = net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(source), 0))
		}
		conn, err = net.DialUDP("udp", local, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to)))
	})
	if err != nil {
		w.t.Fatalf("cannot probe %s: %v", to, err)
	}
	defer conn.Close()
	text := w.heard.token()
	for end := time.Now().Add(wait); time.Now().Before(end); {
		_, _ = conn.Write([]byte(text))
		seen = w.answer(conn, quiet/3)
		if seen != "" || oneWay && w.heard.has(text) {
			return true, seen
		}
	}
	return w.heard.has(text), ""
}

func (w *world) answer(conn net.Conn, wait time.Duration) string {
	buf := make([]byte, 200)
	_ = conn.SetReadDeadline(time.Now().Add(wait))
	n, err := conn.Read(buf)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		// Refused: somebody answered, but not the addressed server.
		return ""
	}
	host, _, _ := net.SplitHostPort(string(buf[:n]))
	return host
}

func (w *world) ping(from *netlab.Namespace, to string, wait time.Duration) bool {
	addr := netip.MustParseAddr(to)
	network, listen, number := "ip4:icmp", "0.0.0.0", 1
	var kind, reply xicmp.Type = ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply
	if addr.Is6() {
		network, listen, number = "ip6:ipv6-icmp", "::", 58
		kind, reply = ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
	}
	var conn *xicmp.PacketConn
	var err error
	from.Do(func() { conn, err = xicmp.ListenPacket(network, listen) })
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	text := w.heard.token()
	message, err := (&xicmp.Message{Type: kind, Body: &xicmp.Echo{ID: int(w.heard.last.Load()), Data: []byte(text)}}).Marshal(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	_, _ = conn.WriteTo(message, &net.IPAddr{IP: addr.AsSlice()})
	_ = conn.SetReadDeadline(time.Now().Add(wait))
	buf := make([]byte, 1500)
	for {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			return false
		}
		got, err := xicmp.ParseMessage(number, buf[:n])
		if err != nil || got.Type != reply {
			continue
		}
		if echo, ok := got.Body.(*xicmp.Echo); ok && string(echo.Data) == text {
			return true
		}
	}
}

// flow is a line of the specification: from somebody to an address.
type flow struct {
	from, to string
	// network is udp, tcp or ping; port is of no account to the last.
	network string
	port    int
	// why is the rule that is meant.
	why string
	// source is the sender's address when it isn't the usual one.
	source string
}

func (f flow) String() string {
	as := ""
	if f.source != "" {
		as = " as " + f.source
	}
	return fmt.Sprintf("%s%s to %s %s %d: %s", f.from, as, f.to, f.network, f.port, f.why)
}

func (f flow) address() string {
	if f.network == "ping" {
		return f.to
	}
	return net.JoinHostPort(f.to, strconv.Itoa(f.port))
}

// hold runs the specification: allowed flows must get an answer, and forbidden ones
// mustn't even arrive. Forbidden flows pass without the rules, which proves that
// nothing but the rules stops them.
func (w *world) hold(t *testing.T, allowed, forbidden []flow, rules func()) {
	t.Helper()
	for _, f := range forbidden {
		if !w.arrives(f, patience) {
			t.Errorf("the world is broken: without rules it doesn't pass: %s", f)
		}
	}
	rules()
	for _, f := range allowed {
		if ok, _ := w.answered(f, patience); !ok {
			t.Errorf("must pass: %s", f)
		}
	}
	for _, f := range forbidden {
		if w.arrives(f, quiet) {
			t.Errorf("must not pass: %s", f)
		}
	}
}
