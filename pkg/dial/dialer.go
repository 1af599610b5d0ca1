package dial

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	// maxAttempts bounds how many addresses of one name are tried: a name with
	// hundreds of them would make the node contact hundreds of hosts.
	maxAttempts = 4
	// minAttempt is the least time that an address gets, if the dial has it.
	minAttempt = 2 * time.Second
)

// control is called with the address of a socket that is about to connect.
type control func(network, address string) error

// Dialer connects to addresses named by tenants. It is safe for concurrent use.
type Dialer struct {
	refuse   []addressRange
	own      func() []netip.Prefix
	allow    []Exception
	resolver Resolver
	timeout  time.Duration
	log      zerolog.Logger
	connect  func(ctx context.Context, network string, to netip.AddrPort, check control) (net.Conn, error)
}

// DialContext connects to address ("host:port") by TCP; network is tcp, tcp4 or
// tcp6. The name is resolved once, all of its addresses are judged whatever the
// network, and the connection goes to one of them.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, node.Errorf(node.Invalid, "cannot dial %s over %s: allowed are tcp, tcp4 and tcp6", shown(address), shown(network))
	}
	t, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	addrs, err := d.judged(ctx, t)
	if err != nil {
		return nil, err
	}
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool {
		return (network == "tcp4" && !a.Is4()) || (network == "tcp6" && !a.Is6())
	})
	if len(addrs) == 0 {
		return nil, node.Errorf(node.Transient, "cannot dial %s over %s: it has no such address", t, network)
	}
	return d.connectAny(ctx, network, t, addrs[:min(len(addrs), maxAttempts)])
}

// judged returns the addresses of a target, none of them refused.
func (d *Dialer) judged(ctx context.Context, t target) ([]netip.Addr, error) {
	addrs, err := d.resolve(ctx, t)
	if err != nil {
		return nil, err
	}
	ranges, err := d.ranges()
	if err != nil {
		return nil, err
	}
	for _, addr := range addrs {
		if err := d.judge(t, addr, ranges); err != nil {
			return nil, err
		}
	}
	return addrs, nil
}

// resolve returns the addresses of a target, at least one. A name with a dot is
// looked up unchanged: no search list of this machine's turns it into another.
// One without is a name of the hosts file or of the search list only.
func (d *Dialer) resolve(ctx context.Context, t target) ([]netip.Addr, error) {
	if t.ip.IsValid() {
		return []netip.Addr{t.ip}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout/2)
	defer cancel()
	name := t.name
	if strings.Contains(name, ".") {
		name += "."
	}
	answers, err := d.resolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil, node.Errorf(node.Transient, "cannot dial %s: cannot resolve %s: %w", t, t.name, err)
	}
	var out []netip.Addr
	for _, a := range answers {
		if a = a.Unmap(); a.IsValid() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, node.Errorf(node.Transient, "cannot dial %s: %s has no address", t, t.name)
	}
	return out, nil
}

// connectAny tries judged addresses in the order of the resolver, each with its
// share of the remaining time.
func (d *Dialer) connectAny(ctx context.Context, network string, t target, addrs []netip.Addr) (net.Conn, error) {
	var last error
	for i, addr := range addrs {
		to := netip.AddrPortFrom(addr, t.port)
		conn, err := d.attempt(ctx, network, t, to, len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		if node.KindOf(err) != node.Transient || ctx.Err() != nil {
			return nil, err
		}
		if i < len(addrs)-1 {
			d.log.Debug().Str("id", t.String()).Str("step", "dial").Err(err).Msg("an address failed, trying the next")
		}
		last = err
	}
	return nil, last
}

func (d *Dialer) attempt(ctx context.Context, network string, t target, to netip.AddrPort, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(time.Until(deadline)/time.Duration(left), minAttempt))
		defer cancel()
	}
	var verdict error
	conn, err := d.connect(ctx, network, to, func(_, address string) error {
		verdict = d.judgePeer(t, to, address)
		return verdict
	})
	if verdict != nil {
		return nil, verdict
	}
	if err != nil {
		return nil, node.Errorf(node.Transient, "cannot dial %s: %w", t, err)
	}
	return conn, nil
}

// judgePeer is the last check, of the address that the kernel is about to get: it
// must be the judged one, and still allowed.
func (d *Dialer) judgePeer(t target, to netip.AddrPort, address string) error {
	peer, err := netip.ParseAddrPort(address)
	if err != nil || peer.Addr().Unmap() != to.Addr() || peer.Port() != to.Port() {
		return node.Errorf(node.Internal, "cannot dial %s: the socket would connect to %s, not to %s", t, address, to)
	}
	ranges, err := d.ranges()
	if err != nil {
		return err
	}
	return d.judge(t, to.Addr(), ranges)
}

// connect is a real connection to an IP; nothing is left to resolve.
func connect(ctx context.Context, network string, to netip.AddrPort, check control) (net.Conn, error) {
	dialer := net.Dialer{
		FallbackDelay: -1,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			return check(network, address)
		},
	}
	return dialer.DialContext(ctx, network, to.String())
}
