package dns_test

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mdns "github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/modules/network/dns"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

func wantKind(t *testing.T, what string, err error, kind node.Kind, part string) {
	t.Helper()
	if node.KindOf(err) != kind || err == nil || !strings.HasPrefix(err.Error(), "cannot ") || !strings.Contains(err.Error(), part) {
		t.Errorf("%s: %v (%s), want %s and %q", what, err, node.KindOf(err), kind, part)
	}
	if err != nil && len(err.Error()) > 600 {
		t.Errorf("%s: the error has %d bytes", what, len(err.Error()))
	}
}

func TestInvalidZones(t *testing.T) {
	n := newNamespace(t)
	s := newServer(t, dns.Config{})
	ip := []netip.Addr{netip.MustParseAddr("10.1.1.5")}
	set(t, s, n.zone("one"))
	before := s.List("")
	for _, c := range []struct {
		what   string
		change func(z *dns.Zone)
		kind   node.Kind
		want   string
	}{
		{"upper case", func(z *dns.Zone) { z.Names["Web"] = ip }, node.Invalid, `the name "Web": allowed is a DNS label`},
		{"empty", func(z *dns.Zone) { z.Names[""] = ip }, node.Invalid, `the name ""`},
		{"a dot", func(z *dns.Zone) { z.Names["a.b"] = ip }, node.Invalid, `"a.b"`},
		{"dash first", func(z *dns.Zone) { z.Names["-a"] = ip }, node.Invalid, `"-a"`},
		{"dash last", func(z *dns.Zone) { z.Names["a-"] = ip }, node.Invalid, `"a-"`},
		{"underscore", func(z *dns.Zone) { z.Names["a_b"] = ip }, node.Invalid, `"a_b"`},
		{"another script", func(z *dns.Zone) { z.Names["wéb"] = ip }, node.Invalid, `"wéb"`},
		{"64 characters", func(z *dns.Zone) { z.Names[strings.Repeat("a", 64)] = ip }, node.Invalid, "1 to 63"},
		{"1 MB", func(z *dns.Zone) { z.Names[strings.Repeat("☃", 1<<20/3)] = ip }, node.Invalid, "1 to 63"},
		{"no address", func(z *dns.Zone) { z.Names["a"] = []netip.Addr{{}} }, node.Invalid, "a has the address"},
		{"unspecified", func(z *dns.Zone) { z.Names["a"] = []netip.Addr{netip.IPv6Unspecified()} }, node.Invalid, `"::"`},
		{"with a link", func(z *dns.Zone) { z.Names["a"] = []netip.Addr{netip.MustParseAddr("fe80::1%lo")} }, node.Invalid, `"fe80::1%lo"`},
		{"no ID", func(z *dns.Zone) { z.ID = "" }, node.Invalid, "ID"},
		{"no namespace", func(z *dns.Zone) { z.Namespace = "" }, node.Invalid, "Namespace"},
		{"a namespace that isn't there", func(z *dns.Zone) { z.Namespace += "x" }, node.NotExist, n.path + "x"},
		{"a port that is taken", func(z *dns.Zone) { z.ID = "two" }, node.Busy, "port 53"},
	} {
		z := n.zone("one")
		c.change(&z)
		wantKind(t, c.what, s.Set(context.Background(), z), c.kind, c.want)
	}
	if after := s.List(""); len(after) != 1 || after[0] != before[0] {
		t.Errorf("refusals changed %v to %v", before, after)
	}
}

func TestNamesChangeInPlace(t *testing.T) {
	n := newNamespace(t)
	s := serving(t, n, dns.Config{})
	tcp := n.dial("tcp", "", gateway4)
	if m, err := exchange(tcp, question("new", mdns.TypeA)); err != nil || said(m) != "NXDOMAIN" {
		t.Fatalf("%v, %v", m, err)
	}
	z := n.zone("one")
	z.Names["new"] = []netip.Addr{netip.MustParseAddr("10.1.1.9")}
	delete(z.Names, "web")
	set(t, s, z)
	if m, err := exchange(tcp, question("new", mdns.TypeA)); err != nil || said(m) != "NOERROR 10.1.1.9" {
		t.Errorf("on a connection that was open: %v, %v", m, err)
	}
	if got := said(n.ask("udp", "web", mdns.TypeA)); got != "NXDOMAIN" {
		t.Errorf("a name that has gone: %s", got)
	}
	if list := s.List(""); list[0].Digest != z.Digest() {
		t.Errorf("the digest of what is served is %s, want %s", list[0].Digest, z.Digest())
	}
}

func TestAReplacedNamespaceIsListenedInAnew(t *testing.T) {
	n := newNamespace(t)
	s := serving(t, n, dns.Config{})
	old := s.List("")[0]
	n.replace()
	if _, err := n.tryDial("tcp", "", gateway4); err == nil {
		t.Fatal("something listens in the new namespace already")
	}
	set(t, s, n.zone("one"))
	if got := said(n.ask("udp", "web", mdns.TypeA)); got != "NOERROR 10.1.1.5" {
		t.Errorf("in the new namespace: %s", got)
	}
	list := s.List("")
	inode, err := netns.Inode(n.path)
	if err != nil || len(list) != 1 || list[0].NamespaceInode != inode || inode == old.NamespaceInode || !list[0].Listening {
		t.Errorf("%+v after %+v, the namespace is %d, %v", list, old, inode, err)
	}
}

func TestRemoveFreesTheSockets(t *testing.T) {
	n := newNamespace(t)
	s := serving(t, n, dns.Config{})
	open := n.dial("tcp", "", gateway4)
	if _, err := exchange(open, question("web", mdns.TypeA)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Remove(context.Background(), "one"); err != nil {
			t.Fatal(err)
		}
		if _, err := n.tryDial("tcp", "", gateway4); err == nil {
			t.Error("TCP still connects")
		}
		if _, err := exchange(n.dial("udp", "", gateway4), question("web", mdns.TypeA)); err == nil {
			t.Error("UDP still answers")
		}
		wantKind(t, "twice", s.Remove(context.Background(), "one"), node.NotExist, "one")
		if got := s.List(""); len(got) != 0 {
			t.Errorf("listed are %v", got)
		}
		set(t, s, n.zone("one"))
	}
	if _, err := exchange(open, question("web", mdns.TypeA)); err == nil {
		t.Error("a connection outlived its zone")
	}
}

func TestCloseEndsAll(t *testing.T) {
	n := newNamespace(t)
	silent := newUpstream(t, func(string, *mdns.Msg) *mdns.Msg { return nil })
	running := goleak.IgnoreCurrent()
	s := serving(t, n, dns.Config{Upstreams: []netip.AddrPort{silent.addr}})
	packet, err := question("example.com", mdns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	n.dial("tcp", "", gateway4)
	if _, err := n.dial("udp", "", gateway4).Write(packet); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a query is in hand", func() bool { return len(silent.asked()) == 1 })
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	goleak.VerifyNone(t, running)
	wantKind(t, "set", s.Set(context.Background(), n.zone("one")), node.Transient, "closed")
	wantKind(t, "remove", s.Remove(context.Background(), "one"), node.Transient, "closed")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wantKind(t, "cancelled", newServer(t, dns.Config{}).Set(ctx, n.zone("one")), node.Transient, "cancel")
}

func TestInvalidConfigs(t *testing.T) {
	for _, c := range []struct {
		config dns.Config
		want   string
	}{
		{dns.Config{Upstreams: []netip.AddrPort{{}}}, "Upstreams"},
		{dns.Config{Upstreams: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}}, "127.0.0.1:0"},
		{dns.Config{Upstreams: []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:53")}}, "0.0.0.0:53"},
		{dns.Config{Timeout: -1}, "Timeout"},
		{dns.Config{Attempt: -1}, "Attempt"},
		{dns.Config{Idle: -1}, "Idle"},
		{dns.Config{Limits: dns.Limits{Forwards: -1}}, "Limits.Forwards"},
		{dns.Config{Limits: dns.Limits{Connections: -1}}, "Limits.Connections"},
		{dns.Config{Limits: dns.Limits{Rate: -1}}, "Limits.Rate"},
	} {
		_, err := dns.New(c.config)
		wantKind(t, c.want, err, node.Invalid, c.want)
	}
}

func TestNameServersOfAFileThatChanges(t *testing.T) {
	n := newNamespace(t)
	path := filepath.Join(t.TempDir(), "resolv.conf")
	s := serving(t, n, dns.Config{ResolvConf: path, Attempt: 1e9})
	if got := said(n.ask("udp", "example.com", mdns.TypeA)); got != "SERVFAIL" {
		t.Errorf("without a file: %s", got)
	}
	// The port is always 53: an address of loopback that no other run has.
	host := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(254)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))}).String()
	up := newUpstreamAt(t, host+":53", withA("192.0.2.7"))
	if err := os.WriteFile(path, []byte("# none\nnameserver not-an-address\nnameserver "+host+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := said(n.ask("udp", "example.com", mdns.TypeA)); got != "NOERROR 192.0.2.7" {
		t.Errorf("with one: %s", got)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := said(n.ask("udp", "example.com", mdns.TypeA)); got != "SERVFAIL" || len(up.asked()) != 1 {
		t.Errorf("with an empty one: %s", got)
	}
	if got := s.List("")[0].Failures; got != 2 {
		t.Errorf("%d failures are counted, want 2", got)
	}
}
