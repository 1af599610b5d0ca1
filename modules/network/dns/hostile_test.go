package dns_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"github.com/croft-edge/croft/modules/network/dns"
)

func TestRefusedQueries(t *testing.T) {
	up := newUpstream(t, withA("192.0.2.7"))
	n := newNamespace(t)
	serving(t, n, dns.Config{Upstreams: addrs(up)})
	for _, c := range []struct {
		what   string
		change func(q *mdns.Msg)
		want   int
	}{
		{"ANY", func(q *mdns.Msg) { q.Question[0].Qtype = mdns.TypeANY }, mdns.RcodeRefused},
		{"AXFR", func(q *mdns.Msg) { q.Question[0].Qtype = mdns.TypeAXFR }, mdns.RcodeRefused},
		{"IXFR", func(q *mdns.Msg) { q.Question[0].Qtype = mdns.TypeIXFR }, mdns.RcodeRefused},
		{"ANY of ours", func(q *mdns.Msg) {
			q.Question[0] = mdns.Question{Name: "web.", Qtype: mdns.TypeANY, Qclass: mdns.ClassINET}
		}, mdns.RcodeRefused},
		{"AXFR of ours", func(q *mdns.Msg) {
			q.Question[0] = mdns.Question{Name: "croft.internal.", Qtype: mdns.TypeAXFR, Qclass: mdns.ClassINET}
		}, mdns.RcodeRefused},
		{"CHAOS", func(q *mdns.Msg) {
			q.Question[0] = mdns.Question{Name: "version.bind.", Qtype: mdns.TypeTXT, Qclass: mdns.ClassCHAOS}
		}, mdns.RcodeRefused},
		{"class ANY", func(q *mdns.Msg) { q.Question[0].Qclass = mdns.ClassANY }, mdns.RcodeRefused},
		{"OPT as a type", func(q *mdns.Msg) { q.Question[0].Qtype = mdns.TypeOPT }, mdns.RcodeRefused},
		{"recursion not wanted", func(q *mdns.Msg) { q.RecursionDesired = false }, mdns.RcodeRefused},
		{"NOTIFY", func(q *mdns.Msg) { q.Opcode = mdns.OpcodeNotify }, mdns.RcodeNotImplemented},
		{"UPDATE", func(q *mdns.Msg) { q.Opcode = mdns.OpcodeUpdate }, mdns.RcodeNotImplemented},
		{"no question", func(q *mdns.Msg) { q.Question = nil }, mdns.RcodeFormatError},
		{"two questions", func(q *mdns.Msg) { q.Question = append(q.Question, q.Question[0]) }, mdns.RcodeFormatError},
		{"an answer in it", func(q *mdns.Msg) { q.Answer = withA("192.0.2.1")("", q).Answer }, mdns.RcodeFormatError},
		{"an option of version 1", func(q *mdns.Msg) { q.SetEdns0(1232, false).IsEdns0().SetVersion(1) }, mdns.RcodeBadVers},
	} {
		for _, network := range []string{"udp", "tcp"} {
			q := question("example.com", mdns.TypeA)
			c.change(q)
			m := n.send(network, gateway4, q)
			if m.Rcode != c.want || m.Id != q.Id || !m.Response || !m.RecursionAvailable || len(m.Answer) != 0 {
				t.Errorf("%s over %s: %v, want %s", c.what, network, m, mdns.RcodeToString[c.want])
			}
		}
	}
	if seen := up.asked(); len(seen) != 0 {
		t.Errorf("forwarded were %v", seen)
	}
}

// A dropped query has no answer: the next answer is the next query's.
func TestGarbageIsDropped(t *testing.T) {
	n := newNamespace(t)
	serving(t, n, dns.Config{})
	response, err := withA("192.0.2.7")("", question("web", mdns.TypeA)).Pack()
	if err != nil {
		t.Fatal(err)
	}
	good, err := question("web", mdns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for what, packet := range map[string][]byte{
		"nothing": nil, "short": []byte("short"), "a response": response, "5,000 bytes": append(good, make([]byte, 5000)...),
	} {
		conn := n.dial("udp", "", gateway4)
		if _, err := conn.Write(packet); err != nil {
			t.Fatal(err)
		}
		q := question("db", mdns.TypeA)
		if m, err := exchange(conn, q); err != nil || m.Id != q.Id || said(m) != "NOERROR 10.1.1.6 10.1.1.7" {
			t.Errorf("after %s: %v, %v", what, m, err)
		}
		if what == "nothing" {
			continue
		}
		tcp := n.dial("tcp", "", gateway4)
		if _, err := tcp.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)); err != nil {
			t.Fatal(err)
		}
		if !ends(t, tcp) {
			t.Errorf("after %s the connection is still open", what)
		}
	}
}

// ends waits until the other side ends the connection without a word.
func ends(t *testing.T, conn net.Conn) bool {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(make([]byte, 1))
	return n == 0 && err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// A tenant whose queries all wait gets SERVFAIL for more of them, still has
// the names of its members, and is of no concern to another tenant.
func TestForwardsAreBounded(t *testing.T) {
	held := make(chan struct{})
	up := newUpstream(t, func(network string, q *mdns.Msg) *mdns.Msg {
		if q.Question[0].Name == "slow.example.com." {
			<-held
		}
		return withA("192.0.2.7")(network, q)
	})
	t.Cleanup(func() { close(held) }) // before the server above is shut down
	n, other := newNamespace(t), newNamespace(t)
	s := serving(t, n, dns.Config{Upstreams: addrs(up), Attempt: time.Minute, Timeout: time.Minute, Limits: dns.Limits{Forwards: 8}})
	set(t, s, other.zone("two"))
	flood := n.dial("udp", "", gateway4)
	const sent = 100
	for range sent {
		out, err := question("slow.example.com", mdns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := flood.Write(out); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all but 8 have failed", func() bool { return s.List("")[0].Failures == sent-8 })
	if got := s.List("")[0].Queries; got != sent {
		t.Errorf("%d queries are counted, want %d", got, sent)
	}
	for _, network := range []string{"udp", "tcp"} {
		if got := said(n.ask(network, "example.com", mdns.TypeA)); got != "SERVFAIL" {
			t.Errorf("one more over %s: %s", network, got)
		}
		if got := said(n.ask(network, "web", mdns.TypeA)); got != "NOERROR 10.1.1.5" {
			t.Errorf("a member over %s: %s", network, got)
		}
		if got := said(other.ask(network, "example.com", mdns.TypeA)); got != "NOERROR 192.0.2.7" {
			t.Errorf("another tenant over %s: %s", network, got)
		}
	}
	eventually(t, "8 are asked", func() bool { return len(up.asked()) == 8+2 })
}

func TestTheRateIsBounded(t *testing.T) {
	n, other := newNamespace(t), newNamespace(t)
	s := serving(t, n, dns.Config{Limits: dns.Limits{Rate: 5}})
	set(t, s, other.zone("two"))
	flood := n.dial("udp", "", gateway4)
	packet, err := question("web", mdns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	const sent = 100
	for range sent {
		if _, err := flood.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all have come", func() bool { return s.List("")[0].Queries == sent })
	if got := s.List("")[0].Dropped; got < sent/2 {
		t.Errorf("%d of %d are dropped", got, sent)
	}
	if got := said(other.ask("udp", "web", mdns.TypeA)); got != "NOERROR 10.1.1.5" {
		t.Errorf("another tenant: %s", got)
	}
	if s.List("")[1].Dropped != 0 {
		t.Error("another tenant's queries are dropped")
	}
	eventually(t, "it answers again", func() bool {
		conn := n.dial("udp", "", gateway4)
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(packet); err != nil {
			t.Fatal(err)
		}
		_, err := conn.Read(make([]byte, 512))
		return err == nil
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	n, other := newNamespace(t), newNamespace(t)
	s := serving(t, n, dns.Config{Idle: time.Second, Limits: dns.Limits{Connections: 3}})
	set(t, s, other.zone("two"))
	var open []net.Conn
	for range 3 {
		conn := n.dial("tcp", "", gateway4)
		if _, err := exchange(conn, question("web", mdns.TypeA)); err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	if !ends(t, n.dial("tcp", "", gateway4)) || s.List("")[0].Dropped != 1 {
		t.Errorf("a fourth connection stays: %+v", s.List("")[0])
	}
	if got := said(other.ask("tcp", "web", mdns.TypeA)); got != "NOERROR 10.1.1.5" {
		t.Errorf("another tenant: %s", got)
	}
	// One is silent, one trickles: both are closed when they have had their time.
	began := time.Now()
	go func() { _, _ = open[1].Write([]byte{0}) }()
	for _, conn := range open {
		if !ends(t, conn) {
			t.Error("an idle connection stays open")
		}
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s to close those that are idle for 1 s", took)
	}
	eventually(t, "there is room again", func() bool {
		conn := n.dial("tcp", "", gateway4)
		defer conn.Close()
		_, err := exchange(conn, question("web", mdns.TypeA))
		return err == nil
	})
}

// Who asks and never reads has its connection closed, and doesn't hold up Close.
func TestAMemberThatNeverReads(t *testing.T) {
	n := newNamespace(t)
	s := newServer(t, dns.Config{Idle: time.Second, Limits: dns.Limits{Rate: 1 << 20}})
	z := n.zone("one")
	for i := range 4000 {
		z.Names["many"] = append(z.Names["many"], netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}))
	}
	set(t, s, z)
	conn := n.dial("tcp", "", gateway4)
	packet, err := question("many", mdns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)
	if err := conn.SetWriteDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = conn.Write(framed)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stays open")
	}
}

// A name server that asks the tenant's own gateway makes no storm of it.
func TestALoopEnds(t *testing.T) {
	n := newNamespace(t)
	up := newUpstream(t, func(network string, q *mdns.Msg) *mdns.Msg {
		conn, err := n.tryDial(network, "", gateway4)
		if err != nil {
			return (&mdns.Msg{}).SetRcode(q, mdns.RcodeServerFailure)
		}
		defer conn.Close()
		m, err := exchange(conn, question(q.Question[0].Name, q.Question[0].Qtype))
		if err != nil {
			return (&mdns.Msg{}).SetRcode(q, mdns.RcodeServerFailure)
		}
		m.Id = q.Id
		return m
	})
	s := serving(t, n, dns.Config{Upstreams: addrs(up), Attempt: time.Minute, Timeout: time.Minute, Limits: dns.Limits{Forwards: 16}})
	began := time.Now()
	if got := said(n.ask("udp", "example.com", mdns.TypeA)); got != "SERVFAIL" {
		t.Error(got)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	if got := s.List("")[0].Queries; got != 17 {
		t.Errorf("one query became %d, want 17: as many as may wait, and the one that may not", got)
	}
}
