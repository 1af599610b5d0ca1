package network

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"
	vishnetns "github.com/vishvananda/netns"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/netlab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a node and what is at the other ends of its cables.
type world struct {
	t    *testing.T
	lab  *netlab.Lab
	node *netlab.Namespace
	dir  string
	log  *syncedLog
}

type syncedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *syncedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *syncedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// newWorld makes one. Its test waits most of the time, and so goes beside others.
func newWorld(t *testing.T) *world {
	t.Parallel()
	lab := netlab.New(t)
	w := &world{t: t, lab: lab, node: lab.Namespace("node"), dir: t.TempDir(), log: &syncedLog{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the node's log:\n%s", w.log)
		}
	})
	return w
}

// cable plugs a cable between the node's interface and another machine's "eth0".
func (w *world) cable(name string) *netlab.Namespace {
	w.t.Helper()
	other := w.lab.Namespace("at-" + name)
	w.plug(name, other)
	return other
}

func (w *world) plug(name string, other *netlab.Namespace) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Join(w.dir, "sys", name, "device"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.lab.Veth(w.node, name, other, "eth0")
	if err := w.node.Netlink().LinkSetDown(w.node.Link(name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) resolvers() string {
	b, _ := os.ReadFile(filepath.Join(w.dir, "resolv.conf"))
	return string(b)
}

// run runs the network; its end is the test's, or earlier by the function returned.
func (w *world) run(cfg Config) (*Network, func()) {
	w.t.Helper()
	cfg.ResolvConf = filepath.Join(w.dir, "resolv.conf")
	cfg.Log = zerolog.New(w.log)
	handle, err := netlink.NewHandleAt(vishnetns.NsHandle(w.node.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		w.t.Fatal(err)
	}
	space := vishnetns.NsHandle(w.node.Fd())
	n, err := newNetwork(cfg, &kernel{links: handle, space: &space, sys: filepath.Join(w.dir, "sys"), within: func(f func() error) (err error) {
		w.node.Do(func() { err = f() })
		return err
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx)
	}()
	end := sync.OnceFunc(func() {
		stop()
		<-done
	})
	w.t.Cleanup(end)
	return n, end
}

// settle waits until is is true.
func settle(t *testing.T, what string, within time.Duration, is func() bool) {
	t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("after %s it isn't so that %s", within, what)
}

func (w *world) has(name, address string) bool {
	return slices.Contains(w.addresses(name), address)
}

func (w *world) addresses(name string) []string {
	link, err := w.node.Netlink().LinkByName(name)
	if err != nil {
		return nil
	}
	there, _ := w.node.Netlink().AddrList(link, netlink.FAMILY_ALL)
	var out []string
	for _, a := range there {
		out = append(out, a.IPNet.String())
	}
	return out
}

func (w *world) routes() string {
	return w.node.Run("ip", "route") + w.node.Run("ip", "-6", "route")
}

// server is a DHCP server that says what a test wants.
type server struct {
	mu     sync.Mutex
	seen   []string
	answer func(question, reply *dhcpv4.DHCPv4) bool
	raw    func(*dhcpv4.DHCPv4) []byte
	conn   *server4.Server
	done   chan struct{}
}

// serve answers on "eth0" of a machine with 192.0.2.1; answer completes the reply, and reports whether it is sent.
func (w *world) serve(on *netlab.Namespace, answer func(question, reply *dhcpv4.DHCPv4) bool) *server {
	w.t.Helper()
	s := &server{answer: answer, done: make(chan struct{})}
	on.Do(func() {
		var err error
		s.conn, err = server4.NewServer("eth0", &net.UDPAddr{IP: net.IPv4zero, Port: 67}, s.handle)
		if err != nil {
			w.t.Fatal(err)
		}
	})
	go func() {
		defer close(s.done)
		s.conn.Serve()
	}()
	w.t.Cleanup(s.stop)
	return s
}

func (s *server) stop() {
	s.conn.Close()
	<-s.done
}

func (s *server) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, seen := range s.seen {
		if strings.HasPrefix(seen, what) {
			n++
		}
	}
	return n
}

func (s *server) handle(conn net.PacketConn, peer net.Addr, m *dhcpv4.DHCPv4) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, fmt.Sprintf("%s from %s", m.MessageType(), peer))
	kind := dhcpv4.MessageTypeOffer
	if m.MessageType() == dhcpv4.MessageTypeRequest {
		kind = dhcpv4.MessageTypeAck
	}
	reply, err := dhcpv4.NewReplyFromRequest(m, dhcpv4.WithMessageType(kind), dhcpv4.WithServerIP(net.IPv4(192, 0, 2, 1)),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(192, 0, 2, 1))), dhcpv4.WithYourIP(net.IPv4(192, 0, 2, 50)),
		dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithLeaseTime(3600))
	if err != nil || !s.answer(m, reply) {
		return
	}
	if s.raw != nil {
		conn.WriteTo(s.raw(reply), peer)
		return
	}
	conn.WriteTo(reply.ToBytes(), peer)
}

// addressed gives a machine addresses.
func addressed(ns *netlab.Namespace, addresses ...string) *netlab.Namespace {
	for _, a := range addresses {
		ns.Addr("eth0", a)
	}
	return ns
}

// dnsmasq runs Debian's DHCP server on "eth0" of a machine.
func (w *world) dnsmasq(on *netlab.Namespace, args ...string) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	all := append([]string{
		"--keep-in-foreground", "--conf-file=/dev/null", "--interface=eth0", "--bind-dynamic", "--port=0", "--user=root", "--pid-file",
		"--dhcp-leasefile=" + filepath.Join(w.t.TempDir(), "leases"), "--log-facility=-", "--no-ping", "--dhcp-authoritative",
	}, args...)
	cmd := on.Command(ctx, "dnsmasq", all...)
	out := &syncedLog{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		cancel()
		w.t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		cmd.Wait()
		if w.t.Failed() {
			w.t.Logf("dnsmasq: %s", out)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}
