package dns

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/pkg/errors"
)

// shun is how long a name server that didn't answer is asked last.
const shun = 30 * time.Second

// forwarder asks name servers for one zone. Which of them it finds silent is
// of no concern to other zones: a tenant can make a server seem so.
type forwarder struct {
	upstreams *upstreams
	// servers are the zone's own, which are asked in place of upstreams if there are any.
	servers atomic.Pointer[[]netip.AddrPort]
	attempt time.Duration
	timeout time.Duration
	// tcp has a place for each query over TCP.
	tcp chan struct{}

	mu sync.Mutex
	// silent has when a server last failed.
	silent map[netip.AddrPort]time.Time
}

func newForwarder(c Config, u *upstreams) *forwarder {
	return &forwarder{
		upstreams: u, attempt: c.Attempt, timeout: c.Timeout,
		tcp: make(chan struct{}, (c.Limits.Forwards+7)/8), silent: map[netip.AddrPort]time.Time{},
	}
}

// ask returns the answer to q, made fit for its sender, from the first name
// server that has one.
func (f *forwarder) ask(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	last := errors.New("cannot forward a query: there is no name server")
	var poor *dns.Msg
	for _, server := range f.order() {
		in, err := f.askOne(ctx, server, q)
		if err != nil {
			last = err
			if ctx.Err() != nil {
				break
			}
			continue
		}
		if in.Rcode == dns.RcodeSuccess || in.Rcode == dns.RcodeNameError {
			return relay(q, in), nil
		}
		// Another may know better than one that refuses or fails.
		if poor == nil {
			poor = in
		}
	}
	if poor != nil {
		return relay(q, poor), nil
	}
	return nil, last
}

// askOne asks one name server, over TCP when its answer is truncated.
func (f *forwarder) askOne(ctx context.Context, server netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
	in, err := f.exchange(ctx, "udp", server, q)
	if err == nil && in.Truncated {
		in, err = f.large(ctx, server, q)
	}
	if ctx.Err() == nil || err == nil {
		f.heard(server, err == nil)
	}
	return in, err
}

// large gets an answer over TCP. Such an answer takes up to some megabytes
// while it is in hand, so few are.
func (f *forwarder) large(ctx context.Context, server netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
	select {
	case f.tcp <- struct{}{}:
		defer func() { <-f.tcp }()
	case <-ctx.Done():
		return nil, errors.Wrapf(ctx.Err(), "cannot ask name server %s over TCP", server)
	}
	in, err := f.exchange(ctx, "tcp", server, q)
	if err == nil && in.Truncated {
		return nil, errors.Errorf("cannot use the answer of name server %s: it is truncated over TCP too", server)
	}
	return in, err
}

// exchange sends q under an ID of its own, from a port of its own, and waits
// for its answer.
func (f *forwarder) exchange(ctx context.Context, network string, server netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, f.attempt)
	defer cancel()
	dialer := net.Dialer{}
	raw, err := dialer.DialContext(ctx, network, server.String())
	if err != nil {
		return nil, errors.Wrapf(err, "cannot ask name server %s", server)
	}
	defer raw.Close()
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	out := outgoing(q)
	conn := dns.Conn{Conn: raw, UDPSize: maxQuery}
	if err := conn.WriteMsg(out); err != nil {
		return nil, errors.Wrapf(err, "cannot ask name server %s", server)
	}
	for {
		packet, err := conn.ReadMsgHeader(nil)
		if err != nil && !errors.Is(err, dns.ErrShortRead) {
			return nil, errors.Wrapf(err, "cannot get the answer of name server %s", server)
		}
		in := &dns.Msg{}
		// A truncated packet can't be read to its end, and needn't be.
		if err := in.Unpack(packet); (err == nil || in.Truncated) && answers(in, out) {
			return in, nil
		}
		if network != "udp" {
			return nil, errors.Errorf("cannot use the answer of name server %s: it isn't one to the question", server)
		}
		// Anybody may have sent such a packet: the answer may still come.
	}
}

// outgoing is the query that goes to a name server: the member's question, and
// none of its options but whether it wants DNSSEC's records.
func outgoing(q *dns.Msg) *dns.Msg {
	out := &dns.Msg{}
	out.Id = dns.Id()
	out.RecursionDesired = true
	out.CheckingDisabled = q.CheckingDisabled
	out.AuthenticatedData = q.AuthenticatedData
	out.Question = []dns.Question{q.Question[0]}
	if opt := q.IsEdns0(); opt != nil {
		out.SetEdns0(maxUDP, opt.Do())
	}
	return out
}

// answers reports whether in is the answer to out.
func answers(in, out *dns.Msg) bool {
	if !in.Response || in.Id != out.Id || in.Opcode != dns.OpcodeQuery || len(in.Question) != 1 {
		return false
	}
	a, b := in.Question[0], out.Question[0]
	return a.Qtype == b.Qtype && a.Qclass == b.Qclass && strings.EqualFold(a.Name, b.Name)
}

// relay makes the answer to q of a name server's answer.
func relay(q, in *dns.Msg) *dns.Msg {
	m := answer(q, in.Rcode)
	if in.Rcode > 0xf {
		// It is about the options of the query that we sent.
		m.Rcode = dns.RcodeServerFailure
	}
	m.AuthenticatedData = in.AuthenticatedData
	m.Answer, m.Ns = in.Answer, in.Ns
	opt := m.Extra
	m.Extra = nil
	for _, rr := range in.Extra {
		if t := rr.Header().Rrtype; t != dns.TypeOPT && t != dns.TypeTSIG && t != dns.TypeSIG {
			m.Extra = append(m.Extra, rr)
		}
	}
	m.Extra = append(m.Extra, opt...)
	return m
}

// order is the name servers in configured order, but those that were silent
// lately come last.
func (f *forwarder) order() []netip.AddrPort {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Clone(f.list())
	late := func(server netip.AddrPort) int {
		if since, ok := f.silent[server]; ok && time.Since(since) < shun {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(out, func(a, b netip.AddrPort) int { return late(a) - late(b) })
	return out
}

// list are the name servers in configured order.
func (f *forwarder) list() []netip.AddrPort {
	if own := f.servers.Load(); own != nil && len(*own) > 0 {
		return *own
	}
	return f.upstreams.list()
}

func (f *forwarder) heard(server netip.AddrPort, answered bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.silent, server)
	if answered {
		return
	}
	if len(f.silent) > 4*mostUpstreams {
		clear(f.silent) // those of files long gone
	}
	f.silent[server] = time.Now()
}
