package carrier

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// echo is a TCP connection from a's tenant to b's, whose other end sends back.
func echo(t *testing.T, a, b *site) net.Conn {
	t.Helper()
	var listener net.Listener
	must(t, netns.Do(b.tenant, func() (err error) {
		listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", netip.AddrPortFrom(b.inner, 7).String())
		return err
	}))
	done := make(chan struct{})
	ctx, end := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		// A tunnel that is broken doesn't say that the other end has closed.
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		_, _ = io.Copy(conn, conn)
	}()
	var conn net.Conn
	err := netns.Do(a.tenant, func() (err error) {
		conn, err = (&net.Dialer{Timeout: 2 * time.Minute}).DialContext(t.Context(), "tcp", netip.AddrPortFrom(b.inner, 7).String())
		return err
	})
	t.Cleanup(func() {
		_ = listener.Close()
		end()
		if conn != nil {
			_ = conn.Close()
		}
		<-done
	})
	must(t, err)
	return conn
}

// passes says a word over the connection and waits for it to come back.
func passes(t *testing.T, what string, conn net.Conn) {
	t.Helper()
	must(t, conn.SetDeadline(time.Now().Add(3*time.Minute)))
	word := []byte(randomName())
	_, err := conn.Write(word)
	got := make([]byte, len(word))
	if err == nil {
		_, err = io.ReadFull(conn, got)
	}
	if err != nil || string(got) != string(word) {
		t.Fatalf("after %s: %q came back for %q: %v", what, got, word, err)
	}
}

// device is how the site's only device is.
func (s *site) device(t *testing.T) wireguard.Status {
	t.Helper()
	all, err := s.client.Devices(t.Context())
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("%d devices, not 1: %+v", len(all), all)
	}
	return all[0]
}

func stranger(t *testing.T) wireguard.Peer {
	t.Helper()
	key, err := wgtypes.GeneratePrivateKey()
	must(t, err)
	return wireguard.Peer{PublicKey: wireguard.Key(key).Public(), AllowedIPs: []netip.Prefix{netip.MustParsePrefix("10.99.77.0/24")}}
}

// One TCP connection lives through all that may happen to a tunnel.
func TestAConnectionLivesThroughChanges(t *testing.T) {
	a, b := connected(t)
	conn := echo(t, a, b)
	passes(t, "the first word", conn)
	hands := a.device(t).Peers[0].LastHandshake
	set := func(s *site, peers ...wireguard.Peer) {
		t.Helper()
		must(t, s.client.SetDevice(t.Context(), "net1", s.config(peers...)))
	}

	set(a, b.peer(true))
	passes(t, "the same once more", conn)
	other := stranger(t)
	set(a, b.peer(true), other)
	passes(t, "a peer that came", conn)
	if got := a.device(t); len(got.Peers) != 2 || got.Broken != "" {
		t.Errorf("the device with two peers: %+v", got)
	}
	set(a, b.peer(true))
	passes(t, "a peer that went", conn)
	wider := b.peer(true)
	wider.AllowedIPs = append(wider.AllowedIPs, netip.MustParsePrefix("10.99.88.0/24"))
	set(a, wider)
	passes(t, "an allowed IP more", conn)
	i := slices.IndexFunc(a.device(t).Peers, func(p wireguard.PeerStatus) bool { return p.PublicKey == b.key.Public() })
	if got := a.device(t).Peers[i].LastHandshake; !got.Equal(hands) {
		t.Errorf("the session was interrupted: handshake at %s, then at %s", hands, got)
	}

	b.port = 30002
	set(b, a.peer(true))
	set(a, b.peer(true))
	passes(t, "another port and endpoint", conn)
	if got := b.device(t).ListenPort; got != 30002 {
		t.Errorf("it listens on %d, not on 30002", got)
	}
}

// B moves to another address: A follows, and stays with it when the same is set again.
func TestAPeerThatMovesIsFollowed(t *testing.T) {
	a, b := connected(t)
	conn := echo(t, a, b)
	passes(t, "the first word", conn)
	moved := netip.AddrFrom4([4]byte{192, 0, 2, 22})
	must(t, netns.Do(b.ns, func() error {
		l, err := netlink.LinkByName("under")
		if err != nil {
			return err
		}
		old, err := netlink.ParseAddr(b.public.String() + "/24")
		if err != nil {
			return err
		}
		return netlink.AddrDel(l, old)
	}))
	addAddress(t, b.ns, "under", netip.PrefixFrom(moved, 24))
	// B speaks first: from where it is now.
	back := echo(t, b, a)
	passes(t, "the move", back)
	passes(t, "the move", conn)
	want := netip.AddrPortFrom(moved, b.port)
	if got := a.device(t).Peers[0].Endpoint; got != want {
		t.Errorf("the endpoint is %s, not %s", got, want)
	}
	must(t, a.client.SetDevice(t.Context(), "net1", a.config(b.peer(true))))
	if got := a.device(t).Peers[0].Endpoint; got != want {
		t.Errorf("set again, the endpoint is %s, not %s", got, want)
	}
	passes(t, "the move, set again", conn)
}

// A has no endpoint in B's configuration: it is hidden, and B answers it.
func TestAHiddenPeerReachesAPublicOne(t *testing.T) {
	a, b := twoSites(t)
	must(t, a.start(t).SetDevice(t.Context(), "net1", a.config(b.peer(true))))
	must(t, b.start(t).SetDevice(t.Context(), "net1", b.config(a.peer(false))))
	a.address(t)
	b.address(t)
	passes(t, "the hidden one's word", echo(t, a, b))
	if got := a.device(t).Peers[0].Keepalive; got != wireguard.KeepNAT {
		t.Errorf("the hidden one keeps its NAT open every %s, not every %s", got, wireguard.KeepNAT)
	}
}

func TestATunnelOutlivesItsCarrier(t *testing.T) {
	a, b := connected(t)
	conn := echo(t, a, b)
	passes(t, "the first word", conn)
	before := linkOf(t, a)
	first := a.client
	must(t, unix.Kill(first.PID(), unix.SIGKILL))
	<-first.Done()
	if err := first.SetDevice(t.Context(), "net1", a.config()); node.KindOf(err) != node.Transient {
		t.Errorf("a dead carrier's answer: %v", err)
	}
	if after := linkOf(t, a); after != before {
		t.Errorf("without a carrier the link is %q, it was %q", after, before)
	}
	if second := a.start(t); second.PID() == first.PID() {
		t.Fatalf("the dead carrier %d is found", first.PID())
	}
	if err := first.SetDevice(t.Context(), "net1", a.config()); node.KindOf(err) != node.Transient {
		t.Errorf("the new carrier answers the dead one's client: %v", err)
	}
	must(t, a.client.SetDevice(t.Context(), "net1", a.config(b.peer(true))))
	if after := linkOf(t, a); after != before {
		t.Errorf("with the new carrier the link is %q, it was %q", after, before)
	}
	passes(t, "a kill -9 of the carrier", conn)
}

// linkOf is the tenant's wg0: its number, its addresses, its routes.
func linkOf(t *testing.T, s *site) string {
	t.Helper()
	text := ""
	must(t, netns.Do(s.tenant, func() error {
		l, err := netlink.LinkByName("wg0")
		if err != nil {
			return err
		}
		text = l.Attrs().Name + " " + time.Duration(l.Attrs().Index).String()
		addrs, err := netlink.AddrList(l, netlink.FAMILY_V4)
		for _, a := range addrs {
			text += " " + a.IPNet.String()
		}
		if err != nil {
			return err
		}
		routes, err := netlink.RouteList(l, netlink.FAMILY_V4)
		for _, r := range routes {
			text += " to " + r.Dst.String()
		}
		return err
	}))
	return text
}

// A carrier that is told to end leaves the links too.
func TestAStoppedCarrierLeavesItsLinks(t *testing.T) {
	a, b := connected(t)
	before := linkOf(t, a)
	must(t, a.client.Stop(t.Context()))
	if after := linkOf(t, a); after != before {
		t.Errorf("the link is %q, it was %q", after, before)
	}
	must(t, a.start(t).SetDevice(t.Context(), "net1", a.config(b.peer(true))))
	passes(t, "an orderly restart", echo(t, a, b))
}
