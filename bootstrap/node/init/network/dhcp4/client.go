package dhcp4

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/bootstrap/node/init/network/lease"
	"github.com/croft-edge/croft/pkg/backoff"
)

const (
	// patience is how long an answer is waited for before the question is sent again; it doubles twice.
	patience = 2 * time.Second
	tries    = 3
	// leastPause is the least time between two renewals that weren't answered.
	leastPause = time.Second
)

// Config is what a Client needs. All but Hostname, Requested and Within is needed.
type Config struct {
	// Name, Index and MAC are the interface's.
	Name  string
	Index int
	MAC   net.HardwareAddr
	// Hostname is sent to the server unless it is empty. It is asked each time: it may be known later.
	Hostname func() string
	// Requested is an address that the interface has from before; the server is asked for it.
	Requested netip.Addr
	// Apply is told a lease when it is new or renewed, and nil when it has ended.
	Apply func(*lease.Lease)
	// Trouble is told what failed last, and nil when all is well again.
	Trouble func(error)
	// Within opens sockets in another network namespace; nil for this one.
	Within func(func() error) error
	Log    zerolog.Logger
}

// Client keeps one interface's lease.
type Client struct {
	cfg   Config
	pause backoff.Backoff

	mu    sync.Mutex
	again context.CancelFunc
}

// New makes a client, which does nothing before Run.
func New(cfg Config) *Client {
	if cfg.Within == nil {
		cfg.Within = func(f func() error) error { return f() }
	}
	if cfg.Hostname == nil {
		cfg.Hostname = func() string { return "" }
	}
	return &Client{cfg: cfg, pause: backoff.Backoff{Base: time.Second, Max: 30 * time.Second}}
}

// bound is a lease with the message that it was made of.
type bound struct {
	*lease.Lease
	ack *dhcpv4.DHCPv4
}

func (b *bound) address() netip.Addr { return b.Addresses[0].Addr() }

// Run gets a lease and keeps it until ctx is done. It never gives up.
func (c *Client) Run(ctx context.Context) error {
	var held *bound
	for ctx.Err() == nil {
		session, stop := context.WithCancel(ctx)
		c.mu.Lock()
		c.again = stop
		c.mu.Unlock()
		held = c.session(session, held)
		stop()
	}
	return ctx.Err()
}

// Again has the client ask anew, because the network may be another one. The lease that it has stays until it ends or is replaced.
func (c *Client) Again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.again != nil {
		c.again()
	}
}

// session gets a lease and keeps it until ctx is done or the lease is lost. It returns what is still held.
func (c *Client) session(ctx context.Context, held *bound) *bound {
	got := c.acquire(ctx, held)
	if ctx.Err() != nil {
		return got
	}
	c.cfg.Apply(got.Lease)
	for {
		next, lost := c.keep(ctx, got)
		switch {
		case lost:
			c.cfg.Apply(nil)
			return nil
		case ctx.Err() != nil:
			return got
		}
		got = next
		c.cfg.Apply(got.Lease)
	}
}

// acquire asks until somebody has given a lease. One that is held meanwhile is given up at its end. It returns what is held when ctx is done.
func (c *Client) acquire(ctx context.Context, held *bound) *bound {
	for failures := 1; ; failures++ {
		got, err := c.discover(ctx, held)
		if err == nil {
			c.cfg.Trouble(nil)
			return got
		}
		if ctx.Err() != nil {
			return held
		}
		c.cfg.Trouble(err)
		if held != nil && !held.End().IsZero() && !time.Now().Before(held.End()) {
			held = nil
			c.cfg.Apply(nil)
		}
		pause := c.pause.Delay(failures)
		if held != nil && !held.End().IsZero() {
			pause = min(pause, time.Until(held.End()))
		}
		if !wait(ctx, pause) {
			return held
		}
	}
}

// discover asks everybody for an address, and takes the first usable offer.
func (c *Client) discover(ctx context.Context, held *bound) (*bound, error) {
	if held != nil && !held.End().IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, held.End())
		defer stop()
	}
	client, err := c.open(func() (net.PacketConn, error) { return broadcast(c.cfg.Index) })
	if err != nil {
		return nil, errors.Wrapf(err, "cannot ask for an IPv4 address on %s", c.cfg.Name)
	}
	defer client.Close()
	begun := time.Now()
	extra := c.options()
	if want := c.wanted(held); want.IsValid() {
		extra = append(extra, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(want.AsSlice())))
	}
	question, err := dhcpv4.NewDiscovery(c.cfg.MAC, extra...)
	if err != nil {
		return nil, errors.Wrap(err, "cannot make a DHCP message")
	}
	offer, err := c.ask(ctx, client, nclient4.DefaultServers, question, func(m *dhcpv4.DHCPv4) (bool, error) {
		if m.MessageType() != dhcpv4.MessageTypeOffer {
			return false, nil
		}
		_, err := Parse(m, begun)
		return err == nil, err
	})
	if err != nil {
		return nil, err
	}
	request, err := dhcpv4.NewRequestFromOffer(offer, c.options()...)
	if err != nil {
		return nil, errors.Wrap(err, "cannot make a DHCP message")
	}
	return c.request(ctx, client, nclient4.DefaultServers, request, offer.ServerIdentifier())
}

// wanted is the address that a server is asked for.
func (c *Client) wanted(held *bound) netip.Addr {
	if held != nil {
		return held.address()
	}
	return c.cfg.Requested
}

// errRefused is a server's word that the address isn't the machine's.
var errRefused = errors.New("the server takes the address back")

// request sends a request, and reads the lease of its answer. Without a server anyone may answer.
func (c *Client) request(ctx context.Context, client *nclient4.Client, to *net.UDPAddr, m *dhcpv4.DHCPv4, server net.IP) (*bound, error) {
	begun := time.Now()
	answer, err := c.ask(ctx, client, to, m, func(m *dhcpv4.DHCPv4) (bool, error) {
		if server != nil && !m.ServerIdentifier().Equal(server) {
			return false, nil
		}
		switch m.MessageType() {
		case dhcpv4.MessageTypeNak:
			return true, nil
		case dhcpv4.MessageTypeAck:
			_, err := Parse(m, begun)
			return err == nil, err
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	if answer.MessageType() == dhcpv4.MessageTypeNak {
		return nil, errors.WithMessagef(errRefused, "cannot use an IPv4 address on %s", c.cfg.Name)
	}
	l, err := Parse(answer, begun)
	if err != nil {
		return nil, err
	}
	return &bound{Lease: l, ack: answer}, nil
}

// ask sends m until an answer is taken. After one that can't be used a better one is waited for, but not for long.
func (c *Client) ask(ctx context.Context, client *nclient4.Client, to *net.UDPAddr, m *dhcpv4.DHCPv4, take func(*dhcpv4.DHCPv4) (bool, error)) (*dhcpv4.DHCPv4, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var refused error
	answer, err := client.SendAndRead(ctx, to, m, func(m *dhcpv4.DHCPv4) bool {
		taken, err := take(m)
		if err != nil && refused == nil {
			refused = err
			time.AfterFunc(patience, stop)
		}
		return taken
	})
	switch {
	case err == nil:
		return answer, nil
	case refused != nil:
		return nil, refused
	case errors.Is(err, nclient4.ErrNoResponse):
		return nil, errors.Errorf("cannot get an IPv4 address on %s: no DHCP server answers", c.cfg.Name)
	}
	return nil, errors.Wrapf(err, "cannot get an IPv4 address on %s", c.cfg.Name)
}

// keep waits until the lease must be renewed, and renews it: first by its server, then by anyone. It returns the renewed lease, or
// whether it is lost: taken back, or ended.
func (c *Client) keep(ctx context.Context, b *bound) (next *bound, lost bool) {
	if b.End().IsZero() {
		<-ctx.Done()
		return nil, false
	}
	if !wait(ctx, time.Until(b.RenewAt())) {
		return nil, false
	}
	for {
		now := time.Now()
		until, renew := b.RebindAt(), c.renew
		if !now.Before(until) {
			until, renew = b.End(), c.rebind
		}
		if !now.Before(b.End()) {
			return nil, true
		}
		attempt, stop := context.WithDeadline(ctx, until)
		next, err := renew(attempt, b)
		stop()
		switch {
		case err == nil:
			c.cfg.Trouble(nil)
			return next, false
		case ctx.Err() != nil:
			return nil, false
		}
		c.cfg.Trouble(errors.WithMessage(err, "cannot renew a lease"))
		if errors.Is(err, errRefused) {
			return nil, true
		}
		// Half of what is left, as RFC 2131 has it, but never the minute that it has at least: leases may be shorter.
		pause := max(time.Until(until)/2, leastPause)
		if !wait(ctx, min(pause, max(time.Until(until), 0))) {
			return nil, false
		}
	}
}

// renew asks the server that gave the lease.
func (c *Client) renew(ctx context.Context, b *bound) (*bound, error) {
	server := b.ack.ServerIdentifier()
	client, err := c.open(func() (net.PacketConn, error) { return unicast(ctx, c.cfg.Name, b.address()) })
	if err != nil {
		return nil, errors.Wrapf(err, "cannot ask for the address %s", b.address())
	}
	defer client.Close()
	m, err := c.message(b)
	if err != nil {
		return nil, err
	}
	return c.request(ctx, client, &net.UDPAddr{IP: server, Port: nclient4.ServerPort}, m, server)
}

// rebind asks everybody.
func (c *Client) rebind(ctx context.Context, b *bound) (*bound, error) {
	client, err := c.open(func() (net.PacketConn, error) { return broadcast(c.cfg.Index) })
	if err != nil {
		return nil, errors.Wrapf(err, "cannot ask for the address %s", b.address())
	}
	defer client.Close()
	m, err := c.message(b)
	if err != nil {
		return nil, err
	}
	return c.request(ctx, client, nclient4.DefaultServers, m, nil)
}

// message is the message that asks for the same lease.
func (c *Client) message(b *bound) (*dhcpv4.DHCPv4, error) {
	id, err := dhcpv4.GenerateTransactionID()
	if err != nil {
		return nil, errors.Wrap(err, "cannot make a DHCP message")
	}
	m, err := dhcpv4.NewRenewFromAck(b.ack, append(c.options(), dhcpv4.WithTransactionID(id))...)
	return m, errors.Wrap(err, "cannot make a DHCP message")
}

// options are those of every message. The client's identifier is made of the MAC: it is the same after a new installation, and what
// servers' administrators write into their tables.
func (c *Client) options() []dhcpv4.Modifier {
	out := []dhcpv4.Modifier{
		dhcpv4.WithOption(dhcpv4.OptClientIdentifier(append([]byte{1}, c.cfg.MAC...))),
		dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(nclient4.MaxMessageSize)),
		dhcpv4.WithRequestedOptions(
			dhcpv4.OptionSubnetMask, dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer, dhcpv4.OptionDomainName,
			dhcpv4.OptionDNSDomainSearchList, dhcpv4.OptionNTPServers, dhcpv4.OptionInterfaceMTU,
		),
	}
	if name := c.cfg.Hostname(); name != "" {
		out = append(out, dhcpv4.WithOption(dhcpv4.OptHostName(name)))
	}
	return out
}

func (c *Client) open(socket func() (net.PacketConn, error)) (*nclient4.Client, error) {
	var conn net.PacketConn
	err := c.cfg.Within(func() (err error) {
		conn, err = socket()
		return err
	})
	if err != nil {
		return nil, err
	}
	client, err := nclient4.NewWithConn(guarded{PacketConn: conn, log: c.cfg.Log}, c.cfg.MAC, nclient4.WithTimeout(patience), nclient4.WithRetry(tries))
	if err != nil {
		conn.Close()
	}
	return client, err
}

// wait reports whether the time has passed before ctx was done.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
