package dns_test

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"github.com/croft-edge/croft/modules/network/dns"
)

func addrs(list ...*upstream) (out []netip.AddrPort) {
	for _, u := range list {
		out = append(out, u.addr)
	}
	return out
}

func TestForwardedMessageRoundTrip(t *testing.T) {
	queries := make(chan *mdns.Msg, 1)
	up := newUpstream(t, func(_ string, q *mdns.Msg) *mdns.Msg {
		queries <- q.Copy()
		m := withA("192.0.2.7")("", q)
		m.AuthenticatedData = true
		m.Ns = []mdns.RR{&mdns.NS{Hdr: mdns.RR_Header{Name: "example.com.", Rrtype: mdns.TypeNS, Class: mdns.ClassINET, Ttl: 9}, Ns: "ns.example.com."}}
		m.Extra = []mdns.RR{&mdns.A{Hdr: mdns.RR_Header{Name: "ns.example.com.", Rrtype: mdns.TypeA, Class: mdns.ClassINET, Ttl: 9}, A: net.IPv4(192, 0, 2, 8)}}
		if q.IsEdns0() != nil {
			m.SetEdns0(4000, false)
			m.IsEdns0().Option = append(m.IsEdns0().Option, &mdns.EDNS0_COOKIE{Code: mdns.EDNS0COOKIE, Cookie: "0102030405060708"})
		}
		return m
	})
	n := newNamespace(t)
	serving(t, n, dns.Config{Upstreams: addrs(up)})

	q := question("eXample.com", mdns.TypeA).SetEdns0(900, true)
	q.CheckingDisabled = true
	q.IsEdns0().Option = append(q.IsEdns0().Option, &mdns.EDNS0_SUBNET{Code: mdns.EDNS0SUBNET, Family: 1, SourceNetmask: 32, Address: net.IPv4(10, 1, 1, 5)})
	m := n.send("udp", gateway4, q)
	sent := <-queries
	if sent.Id == q.Id || sent.Question[0] != q.Question[0] || !sent.CheckingDisabled || !sent.RecursionDesired {
		t.Errorf("sent was %v, asked %v", sent, q)
	}
	if opt := sent.IsEdns0(); opt == nil || !opt.Do() || len(opt.Option) != 0 || opt.UDPSize() != 1232 {
		t.Errorf("the options sent are %v", opt)
	}
	if m.Id != q.Id || m.Question[0] != q.Question[0] || said(m) != "NOERROR 192.0.2.7" || !m.AuthenticatedData || !m.RecursionAvailable || m.Authoritative || len(m.Ns) != 1 || len(m.Extra) != 2 {
		t.Errorf("the answer is %v", m)
	}
	if opt := m.IsEdns0(); opt == nil || len(opt.Option) != 0 {
		t.Errorf("the answer's options are %v", opt)
	}

	m = n.send("udp", gateway4, question("example.com", mdns.TypeA))
	if sent := <-queries; sent.IsEdns0() != nil || m.IsEdns0() != nil || len(m.Extra) != 1 {
		t.Errorf("without options sent was %v, the answer is %v", sent, m)
	}
}

// large answers with 100 addresses, cut off over UDP.
func large(network string, q *mdns.Msg) *mdns.Msg {
	m := (&mdns.Msg{}).SetReply(q)
	for i := range 100 {
		m.Answer = append(m.Answer, &mdns.A{Hdr: mdns.RR_Header{Name: q.Question[0].Name, Rrtype: mdns.TypeA, Class: mdns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, byte(i))})
	}
	if network == "udp" {
		m.Truncate(512)
	}
	return m
}

func TestTruncatedAnswersAreFetchedOverTCP(t *testing.T) {
	up := newUpstream(t, large)
	n := newNamespace(t)
	serving(t, n, dns.Config{Upstreams: addrs(up)})
	if m := n.ask("tcp", "large.example.com", mdns.TypeA); m.Truncated || len(m.Answer) != 100 {
		t.Errorf("over TCP there are %d, truncated %v", len(m.Answer), m.Truncated)
	}
	if got, want := up.asked(), []string{"udp large.example.com.", "tcp large.example.com."}; !slices.Equal(got, want) {
		t.Errorf("asked was %v, want %v", got, want)
	}
	if m := n.ask("udp", "large.example.com", mdns.TypeA); !m.Truncated || m.Len() > 512 {
		t.Errorf("without EDNS there are %d bytes, truncated %v", m.Len(), m.Truncated)
	}
	m := n.send("udp", gateway4, question("large.example.com", mdns.TypeA).SetEdns0(1000, false))
	if !m.Truncated || m.Len() > 1000 || m.Len() < 600 {
		t.Errorf("with EDNS there are %d bytes, truncated %v", m.Len(), m.Truncated)
	}
}

// A packet that is cut off in the middle of a record says so in its header.
func TestTruncatedPacket(t *testing.T) {
	up := newRaw(t, func(q []byte, send func([]byte)) {
		m := &mdns.Msg{}
		if m.Unpack(q) != nil {
			return
		}
		whole := large("tcp", m)
		whole.Truncated = true
		if out, err := whole.Pack(); err == nil {
			send(out[:500])
		}
	}, large)
	n := newNamespace(t)
	serving(t, n, dns.Config{Upstreams: []netip.AddrPort{up}})
	if m := n.ask("tcp", "large.example.com", mdns.TypeA); len(m.Answer) != 100 {
		t.Errorf("there are %d", len(m.Answer))
	}
}

// newRaw answers over UDP with whatever bytes, over TCP with handle.
func newRaw(t *testing.T, reply func(q []byte, send func([]byte)), handle func(string, *mdns.Msg) *mdns.Msg) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(host())})
	if err != nil {
		t.Fatal(err)
	}
	addr := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	l, err := net.Listen("tcp4", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	started, ended := make(chan struct{}), make(chan struct{}, 2)
	server := &mdns.Server{Listener: l, NotifyStartedFunc: func() { close(started) }, Handler: mdns.HandlerFunc(func(w mdns.ResponseWriter, q *mdns.Msg) { _ = w.WriteMsg(handle("tcp", q)) })}
	go func() { _ = server.ActivateAndServe(); ended <- struct{}{} }()
	go func() {
		defer func() { ended <- struct{}{} }()
		buffer := make([]byte, 4096)
		for {
			size, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			reply(buffer[:size], func(b []byte) { _, _ = conn.WriteToUDPAddrPort(b, from) })
		}
	}()
	<-started
	t.Cleanup(func() {
		conn.Close()
		_ = server.ShutdownContext(context.Background())
		<-ended
		<-ended
	})
	return addr
}

// A reply that isn't the query's answer is ignored: it may be a forgery.
func TestForgedAnswers(t *testing.T) {
	up := newRaw(t, func(packet []byte, send func([]byte)) {
		q := &mdns.Msg{}
		if q.Unpack(packet) != nil {
			return
		}
		forge := func(change func(m *mdns.Msg)) {
			m := withA("192.0.2.66")("", q)
			change(m)
			if out, err := m.Pack(); err == nil {
				send(out)
			}
		}
		send(nil)
		send([]byte("short"))
		send(slices.Repeat([]byte{0xff}, 300))
		forge(func(m *mdns.Msg) { m.Id++ })
		forge(func(m *mdns.Msg) { m.Response = false })
		forge(func(m *mdns.Msg) { m.Opcode = mdns.OpcodeNotify })
		forge(func(m *mdns.Msg) { m.Question[0].Name = "other.example.com." })
		forge(func(m *mdns.Msg) { m.Question[0].Qtype = mdns.TypeAAAA })
		forge(func(m *mdns.Msg) { m.Question[0].Qclass = mdns.ClassCHAOS })
		forge(func(m *mdns.Msg) { m.Question = nil })
		forge(func(m *mdns.Msg) {
			m.Answer[0].(*mdns.A).A = net.IPv4(192, 0, 2, 7)
			m.Question[0].Name = strings.ToUpper(m.Question[0].Name)
		})
	}, large)
	n := newNamespace(t)
	serving(t, n, dns.Config{Upstreams: []netip.AddrPort{up}})
	m := n.ask("udp", "example.com", mdns.TypeA)
	if said(m) != "NOERROR 192.0.2.7" || m.Question[0].Name != "example.com." {
		t.Errorf("the answer is %v", m)
	}
}

func TestTheNextNameServerIsAsked(t *testing.T) {
	silent := newUpstream(t, func(string, *mdns.Msg) *mdns.Msg { return nil })
	good := newUpstream(t, withA("192.0.2.7"))
	rcode := func(code int) *upstream {
		return newUpstream(t, func(_ string, q *mdns.Msg) *mdns.Msg { return (&mdns.Msg{}).SetRcode(q, code) })
	}
	refuses, fails, knows := rcode(mdns.RcodeRefused), rcode(mdns.RcodeServerFailure), rcode(mdns.RcodeNameError)
	closed := netip.MustParseAddrPort("127.0.0.1:1")
	for _, c := range []struct {
		what      string
		upstreams []netip.AddrPort
		want      string
		failures  uint64
	}{
		{"after one that is silent", addrs(silent, good), "NOERROR 192.0.2.7", 0},
		{"after one that isn't there", append([]netip.AddrPort{closed}, good.addr), "NOERROR 192.0.2.7", 0},
		{"after one that refuses", addrs(refuses, good), "NOERROR 192.0.2.7", 0},
		{"after one that fails", addrs(fails, good), "NOERROR 192.0.2.7", 0},
		{"not after one that knows", addrs(knows, good), "NXDOMAIN", 0},
		{"none knows", addrs(refuses, fails, silent), "REFUSED", 0},
		{"none answers", append(addrs(silent), closed), "SERVFAIL", 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			n := newNamespace(t)
			s := serving(t, n, dns.Config{Upstreams: c.upstreams, Attempt: 300 * time.Millisecond})
			began := time.Now()
			if got := said(n.ask("udp", "example.com", mdns.TypeA)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
			if got := s.List("")[0]; got.Failures != c.failures || got.Queries != 1 {
				t.Errorf("%d failures of %d are counted, want %d", got.Failures, got.Queries, c.failures)
			}
		})
	}
}

// Who was silent is asked last for a while; that is found out once, not by
// each query.
func TestASilentNameServerIsAskedLast(t *testing.T) {
	silent := newUpstream(t, func(string, *mdns.Msg) *mdns.Msg { return nil })
	good := newUpstream(t, withA("192.0.2.7"))
	n := newNamespace(t)
	serving(t, n, dns.Config{Upstreams: addrs(silent, good), Attempt: 200 * time.Millisecond})
	for range 5 {
		if got := said(n.ask("udp", "example.com", mdns.TypeA)); got != "NOERROR 192.0.2.7" {
			t.Fatal(got)
		}
	}
	if a, b := len(silent.asked()), len(good.asked()); a != 1 || b != 5 {
		t.Errorf("the silent one was asked %d times, the other %d", a, b)
	}
}

func TestAllNameServersAreDead(t *testing.T) {
	silent := func() *upstream { return newUpstream(t, func(string, *mdns.Msg) *mdns.Msg { return nil }) }
	n := newNamespace(t)
	serving(t, n, dns.Config{Upstreams: addrs(silent(), silent(), silent()), Attempt: time.Second, Timeout: 1500 * time.Millisecond})
	for _, network := range []string{"udp", "tcp"} {
		began := time.Now()
		if got := said(n.ask(network, "example.com", mdns.TypeA)); got != "SERVFAIL" {
			t.Error(got)
		}
		if took := time.Since(began); took < time.Second || took > 30*time.Second {
			t.Errorf("over %s it took %s, want 1.5 s", network, took)
		}
	}
}
