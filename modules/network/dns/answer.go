package dns

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

const (
	// maxQuery is the size of the largest query that is read, in bytes: a name
	// has 255, and options need little.
	maxQuery = 4096
	// maxUDP is the size of the largest answer over UDP, in bytes: it passes
	// every tunnel unfragmented (DNS flag day 2020).
	maxUDP = 1232

	headerSize = 12
)

// verdict is the decision about a query: answered with reply, forwarded as query,
// or dropped when both are nil.
type verdict struct {
	reply *dns.Msg
	// query is the query to forward.
	query *dns.Msg
	// size is the largest answer over UDP that the sender accepts, in bytes.
	size int
}

// judge decides without asking other servers. It answers a malformed query as far as
// its header allows, and never answers an answer: two servers would never stop.
func judge(n *names, packet []byte) verdict {
	if len(packet) < headerSize || len(packet) > maxQuery || packet[2]&0x80 != 0 {
		return verdict{}
	}
	if opcode := int(packet[2]>>3) & 0xf; opcode != dns.OpcodeQuery {
		return verdict{reply: bare(packet, dns.RcodeNotImplemented), size: dns.MinMsgSize}
	}
	count := func(at int) uint16 { return binary.BigEndian.Uint16(packet[at:]) }
	if count(4) != 1 || count(6) != 0 || count(8) > 1 || count(10) > 2 {
		return verdict{reply: bare(packet, dns.RcodeFormatError), size: dns.MinMsgSize}
	}
	q := &dns.Msg{}
	if err := q.Unpack(packet); err != nil || len(q.Question) != 1 {
		return verdict{reply: bare(packet, dns.RcodeFormatError), size: dns.MinMsgSize}
	}
	v := judgeQuestion(n, q)
	v.size = sizeUDP(q)
	return v
}

func judgeQuestion(n *names, q *dns.Msg) verdict {
	question := q.Question[0]
	if opt := q.IsEdns0(); opt != nil && opt.Version() != 0 {
		return verdict{reply: answer(q, dns.RcodeBadVers)}
	}
	if question.Qclass != dns.ClassINET || meta(question.Qtype) {
		return verdict{reply: answer(q, dns.RcodeRefused)}
	}
	found := n.lookup(question)
	if !found.ours {
		if !q.RecursionDesired {
			return verdict{reply: answer(q, dns.RcodeRefused)}
		}
		return verdict{query: q}
	}
	reply := answer(q, dns.RcodeSuccess)
	reply.Authoritative = true
	reply.Answer = found.records
	if !found.exists {
		reply.Rcode = dns.RcodeNameError
	}
	if len(reply.Answer) == 0 && dns.IsSubDomain(domain, question.Name) {
		// Without it nobody may keep that there is nothing (RFC 2308).
		reply.Ns = []dns.RR{&dns.SOA{
			Hdr: dns.RR_Header{Name: domain, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
			Ns:  domain, Mbox: domain, Serial: 1, Refresh: ttl, Retry: ttl, Expire: ttl, Minttl: ttl,
		}}
	}
	return verdict{reply: reply}
}

// meta reports whether a type asks for more than records of one type: zone
// transfers, all types, and the types of the protocol itself.
func meta(t uint16) bool {
	return t == dns.TypeNone || t == dns.TypeOPT || t >= dns.TypeTKEY && t <= dns.TypeANY
}

// bare answers a query of which only the header is understood.
func bare(packet []byte, rcode int) *dns.Msg {
	m := &dns.Msg{}
	m.Id = binary.BigEndian.Uint16(packet)
	m.Response = true
	m.Opcode = int(packet[2]>>3) & 0xf
	m.RecursionDesired = packet[2]&1 != 0
	m.RecursionAvailable = true
	m.Rcode = rcode
	return m
}

// answer begins an answer to q, with an OPT record if q has one.
func answer(q *dns.Msg, rcode int) *dns.Msg {
	m := (&dns.Msg{}).SetRcode(q, rcode)
	m.RecursionAvailable = true
	if opt := q.IsEdns0(); opt != nil {
		m.SetEdns0(maxUDP, opt.Do())
	}
	return m
}

// pack encodes an answer in at most size bytes, truncating it as needed. An answer
// that can't be encoded becomes SERVFAIL: a name server may send records that can
// be decoded but not encoded.
func pack(m *dns.Msg, size int) ([]byte, error) {
	m.Truncate(size)
	out, err := m.Pack()
	if err == nil && len(out) <= size {
		return out, nil
	}
	m.Answer, m.Ns, m.Extra = nil, nil, nil
	m.Rcode = dns.RcodeServerFailure
	return m.Pack()
}

// sizeUDP is the size limit of an answer over UDP to the sender of q.
func sizeUDP(q *dns.Msg) int {
	if opt := q.IsEdns0(); opt != nil {
		return min(max(int(opt.UDPSize()), dns.MinMsgSize), maxUDP)
	}
	return dns.MinMsgSize
}
