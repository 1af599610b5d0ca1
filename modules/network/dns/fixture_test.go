package dns_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/network/dns"
	"github.com/croft-edge/croft/pkg/netns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// namespace is a tenant's: the addresses of its gateway are on its loopback.
type namespace struct {
	t    *testing.T
	path string
}

const gateway4, gateway6 = "10.1.1.1", "fd00:1:2:100::1"

func newNamespace(t *testing.T) namespace {
	n := namespace{t: t, path: filepath.Join(t.TempDir(), "netns")}
	t.Cleanup(func() { _ = netns.Remove(n.path) })
	n.make()
	return n
}

// patience is for what the kernel does when it comes to it.
const patience = time.Minute

// awaitLocal waits until the kernel delivers packets to an address: a kernel worker makes the route of an IPv6 one, and what is
// sent before is lost.
func awaitLocal(ip net.IP) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		routes, err := netlink.RouteGet(ip)
		if err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not a local address: %v, %w", ip, routes, err)
		}
	}
}

func (n namespace) make() {
	n.t.Helper()
	if err := netns.Make(n.path); err != nil {
		n.t.Fatal(err)
	}
	err := netns.Do(n.path, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(lo); err != nil {
			return err
		}
		for _, text := range []string{gateway4 + "/32", gateway6 + "/128"} {
			addr, err := netlink.ParseAddr(text)
			if err != nil {
				return err
			}
			// Without this flag an IPv6 address is tentative until a kernel worker has run, and nothing is sent
			// from a tentative address.
			addr.Flags = unix.IFA_F_NODAD
			if err := netlink.AddrAdd(lo, addr); err != nil {
				return err
			}
			if err := awaitLocal(addr.IP); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

// replace puts another namespace behind the path.
func (n namespace) replace() {
	n.t.Helper()
	if err := netns.Remove(n.path); err != nil {
		n.t.Fatal(err)
	}
	n.make()
}

// dial connects to port 53 of host from inside.
func (n namespace) dial(network, from, host string) net.Conn {
	n.t.Helper()
	conn, err := n.tryDial(network, from, host)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	return conn
}

func (n namespace) tryDial(network, from, host string) (conn net.Conn, err error) {
	d := net.Dialer{}
	switch {
	case from != "" && network == "udp":
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
	case from != "":
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
	}
	err = netns.Do(n.path, func() error {
		var err error
		conn, err = d.Dial(network, net.JoinHostPort(host, "53"))
		return err
	})
	return conn, err
}

// ask asks one question of the gateway and returns the answer.
func (n namespace) ask(network, name string, qtype uint16) *mdns.Msg {
	n.t.Helper()
	return n.send(network, gateway4, question(name, qtype))
}

func (n namespace) send(network, host string, q *mdns.Msg) *mdns.Msg {
	n.t.Helper()
	conn := n.dial(network, "", host)
	defer conn.Close()
	out, err := exchange(conn, q)
	if err != nil {
		n.t.Fatalf("%v over %s: %v", q.Question, network, err)
	}
	return out
}

func question(name string, qtype uint16) *mdns.Msg {
	return (&mdns.Msg{}).SetQuestion(mdns.Fqdn(name), qtype)
}

func exchange(conn net.Conn, q *mdns.Msg) (*mdns.Msg, error) {
	c := mdns.Conn{Conn: conn, UDPSize: mdns.MaxMsgSize - 1}
	// A packet may be lost, as resolvers expect; a stream loses nothing.
	wait, tries := time.Minute, 1
	if _, packets := conn.(*net.UDPConn); packets {
		wait, tries = 15*time.Second, 4
	}
	var m *mdns.Msg
	var err error
	for range tries {
		if err = conn.SetDeadline(time.Now().Add(wait)); err != nil {
			return nil, err
		}
		if err = c.WriteMsg(q); err != nil {
			return nil, err
		}
		m, err = c.ReadMsg()
		var late net.Error
		if !errors.As(err, &late) || !late.Timeout() {
			break
		}
	}
	if m != nil {
		m.Compress = true // so that Len is that of the packet
	}
	return m, err
}

// upstream is a real name server on the test's own loopback.
type upstream struct {
	addr netip.AddrPort
	mu   sync.Mutex
	// seen are the questions that came, the network before each.
	seen []string
}

// newUpstream answers with handle, over UDP and TCP.
func newUpstream(t *testing.T, handle func(network string, q *mdns.Msg) *mdns.Msg) *upstream {
	t.Helper()
	return newUpstreamAt(t, host()+":0", handle)
}

// host is an address of loopback that no other process of tests has: a port of UDP on it is free for TCP too.
func host() string {
	id := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(64 + id>>16&63), byte(id >> 8), byte(id)}).String()
}

func newUpstreamAt(t *testing.T, addr string, handle func(network string, q *mdns.Msg) *mdns.Msg) *upstream {
	t.Helper()
	packets, err := net.ListenPacket("udp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{addr: packets.LocalAddr().(*net.UDPAddr).AddrPort()}
	stream, err := net.Listen("tcp4", u.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	handler := mdns.HandlerFunc(func(w mdns.ResponseWriter, q *mdns.Msg) {
		network := w.LocalAddr().Network()
		u.mu.Lock()
		u.seen = append(u.seen, network+" "+q.Question[0].Name)
		u.mu.Unlock()
		if reply := handle(network, q); reply != nil {
			_ = w.WriteMsg(reply)
		}
	})
	for _, s := range []*mdns.Server{{PacketConn: packets, Handler: handler}, {Listener: stream, Handler: handler}} {
		started, ended := make(chan struct{}), make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() {
			defer close(ended)
			_ = s.ActivateAndServe()
		}()
		<-started
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_ = s.ShutdownContext(ctx)
			<-ended
		})
	}
	return u
}

func (u *upstream) asked() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.seen...)
}

// withA answers every question with that address.
func withA(ip string) func(string, *mdns.Msg) *mdns.Msg {
	return func(_ string, q *mdns.Msg) *mdns.Msg {
		m := (&mdns.Msg{}).SetReply(q)
		m.RecursionAvailable = true
		m.Answer = []mdns.RR{&mdns.A{Hdr: mdns.RR_Header{Name: q.Question[0].Name, Rrtype: mdns.TypeA, Class: mdns.ClassINET, Ttl: 60}, A: net.ParseIP(ip)}}
		return m
	}
}

func newServer(t *testing.T, c dns.Config) *dns.Server {
	t.Helper()
	c.Log = zerolog.New(zerolog.NewTestWriter(t))
	s, err := dns.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (n namespace) zone(id string) dns.Zone {
	ips := func(list ...string) (out []netip.Addr) {
		for _, ip := range list {
			out = append(out, netip.MustParseAddr(ip))
		}
		return out
	}
	return dns.Zone{ID: id, Namespace: n.path, Network: "Net1", Names: map[string][]netip.Addr{
		"web": ips("10.1.1.5", "fd00:1:2:100::a01:105"),
		"db":  ips("10.1.1.6", "10.1.1.7", "10.1.1.6"),
		"v6":  ips("fd00:1:2:100::a01:108"),
	}}
}

func set(t *testing.T, s *dns.Server, z dns.Zone) {
	t.Helper()
	if err := s.Set(context.Background(), z); err != nil {
		t.Fatal(err)
	}
}

// serving is a server with one zone, that of n.
func serving(t *testing.T, n namespace, c dns.Config) *dns.Server {
	t.Helper()
	s := newServer(t, c)
	set(t, s, n.zone("one"))
	return s
}

// eventually polls until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within a minute", what)
		case <-tick.C:
		}
	}
}
