package dns

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

// FuzzJudge gives any bytes to all that looks at a query, and any bytes as a
// name server's answer to all that looks at that.
func FuzzJudge(f *testing.F) {
	ip := netip.MustParseAddr
	names := newNames(Zone{ID: "x", Network: "net1", Names: map[string][]netip.Addr{"web": {ip("10.1.1.5"), ip("fd00::5")}}})
	seed := func(m *dns.Msg) []byte {
		out, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		return out
	}
	ask := func(name string, qtype uint16) *dns.Msg { return (&dns.Msg{}).SetQuestion(name, qtype) }
	f.Add(seed(ask("web.net1.", dns.TypeA)), seed(ask("a.b.", dns.TypeA)))
	f.Add(seed(ask("5.1.1.10.in-addr.arpa.", dns.TypePTR)), seed((&dns.Msg{}).SetReply(ask("a.b.", dns.TypeA))))
	f.Add(seed(ask("f.ip6.arpa.", dns.TypePTR).SetEdns0(700, true)), []byte{})
	f.Add(seed(ask(`w\.b\000.croft.internal.`, dns.TypeANY)), []byte("garbage"))
	f.Fuzz(func(t *testing.T, packet, upstream []byte) {
		v := judge(names, packet)
		if v.reply != nil && v.query != nil {
			t.Fatal("it is answered and forwarded")
		}
		if v.query != nil {
			v.reply = relayed(v.query, upstream)
			out := outgoing(v.query)
			if _, err := out.Pack(); err != nil {
				t.Fatalf("a query that can't be forwarded: %v", err)
			}
		}
		if v.reply == nil {
			return
		}
		if v.size < dns.MinMsgSize || v.size > maxUDP {
			t.Fatalf("an answer may have %d bytes", v.size)
		}
		for _, size := range []int{v.size, dns.MaxMsgSize} {
			m := v.reply.Copy()
			out, err := pack(m, size)
			if err != nil || len(out) > size {
				t.Fatalf("%d bytes for %d, %v", len(out), size, err)
			}
			if len(out) < headerSize || out[0] != packet[0] || out[1] != packet[1] || out[2]&0x80 == 0 || out[3]&0x80 == 0 {
				t.Fatalf("%x isn't an answer to %x", out, packet)
			}
		}
	})
}

// relayed is the answer that the bytes of a name server become.
func relayed(q *dns.Msg, upstream []byte) *dns.Msg {
	in := &dns.Msg{}
	if in.Unpack(upstream) != nil && !in.Truncated {
		return answer(q, dns.RcodeServerFailure)
	}
	_ = answers(in, outgoing(q))
	return relay(q, in)
}
