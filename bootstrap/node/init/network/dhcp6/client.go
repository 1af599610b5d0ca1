package dhcp6

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/nclient6"
	"github.com/insomniacslk/dhcp/iana"
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

// Config is what a Client needs. All but Within is needed.
type Config struct {
	// Name, Index and MAC are the interface's.
	Name  string
	Index int
	MAC   net.HardwareAddr
	// Address has the client ask for an address; else it asks for servers only.
	Address bool
	// Apply is told a lease when it is new or renewed, and nil when it has ended.
	Apply func(*lease.Lease)
	// Trouble is told what failed last, and nil when all is well again.
	Trouble func(error)
	// Within opens sockets in another network namespace; nil for this one.
	Within func(func() error) error
	Log    zerolog.Logger
}

// Client asks the servers of one interface.
type Client struct {
	cfg   Config
	pause backoff.Backoff
}

// New makes a client, which does nothing before Run.
func New(cfg Config) *Client {
	if cfg.Within == nil {
		cfg.Within = func(f func() error) error { return f() }
	}
	return &Client{cfg: cfg, pause: backoff.Backoff{Base: time.Second, Max: 2 * time.Minute}}
}

// bound is a lease with the message that it was made of.
type bound struct {
	*lease.Lease
	reply *dhcpv6.Message
}

// Run asks until ctx is done. It never gives up.
func (c *Client) Run(ctx context.Context) error {
	for failures := 1; ctx.Err() == nil; failures++ {
		got, err := c.first(ctx)
		if err != nil {
			if ctx.Err() == nil {
				c.cfg.Trouble(err)
			}
			wait(ctx, c.pause.Delay(failures))
			continue
		}
		failures = 0
		for got != nil {
			c.cfg.Trouble(nil)
			c.cfg.Apply(got.Lease)
			got = c.next(ctx, got)
		}
		if ctx.Err() == nil && c.cfg.Address {
			c.cfg.Apply(nil)
		}
	}
	return ctx.Err()
}

// first gets a lease of a server that isn't known.
func (c *Client) first(ctx context.Context) (*bound, error) {
	client, err := c.open(ctx)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot ask DHCPv6 servers on %s", c.cfg.Name)
	}
	defer client.Close()
	if !c.cfg.Address {
		return c.ask(ctx, client, dhcpv6.MessageTypeInformationRequest, nil)
	}
	begun := time.Now()
	question, err := dhcpv6.NewSolicit(c.cfg.MAC, c.options()...)
	if err != nil {
		return nil, errors.Wrap(err, "cannot make a DHCPv6 message")
	}
	offer, err := c.send(ctx, client, question, begun, dhcpv6.MessageTypeAdvertise)
	if err != nil {
		return nil, err
	}
	request, err := dhcpv6.NewRequestFromAdvertise(offer.reply)
	if err != nil {
		return nil, errors.Wrap(err, "cannot make a DHCPv6 message")
	}
	request.UpdateOption(requested())
	return c.send(ctx, client, request, begun, dhcpv6.MessageTypeReply)
}

// next waits until the lease must be renewed and renews it: first by its server, then by anyone. It is nil when the lease has ended, or ctx is
// done, or servers are to be asked for their settings again.
func (c *Client) next(ctx context.Context, b *bound) *bound {
	if b.End().IsZero() {
		<-ctx.Done()
		return nil
	}
	if !wait(ctx, time.Until(b.RenewAt())) || !c.cfg.Address {
		return nil
	}
	for ctx.Err() == nil {
		now := time.Now()
		until, kind := b.RebindAt(), dhcpv6.MessageTypeRenew
		if !now.Before(until) {
			until, kind = b.End(), dhcpv6.MessageTypeRebind
		}
		if !now.Before(b.End()) {
			return nil
		}
		attempt, stop := context.WithDeadline(ctx, until)
		next, err := c.again(attempt, kind, b)
		stop()
		if err == nil {
			return next
		}
		if ctx.Err() == nil {
			c.cfg.Trouble(errors.WithMessage(err, "cannot renew a lease"))
		}
		pause := max(time.Until(until)/2, leastPause)
		wait(ctx, min(pause, max(time.Until(until), 0)))
	}
	return nil
}

func (c *Client) again(ctx context.Context, kind dhcpv6.MessageType, b *bound) (*bound, error) {
	client, err := c.open(ctx)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot ask DHCPv6 servers on %s", c.cfg.Name)
	}
	defer client.Close()
	return c.ask(ctx, client, kind, b)
}

// ask sends a message that the library has no maker for. b is the lease that is asked for again, if any.
func (c *Client) ask(ctx context.Context, client *nclient6.Client, kind dhcpv6.MessageType, b *bound) (*bound, error) {
	m, err := dhcpv6.NewMessage(c.options()...)
	if err != nil {
		return nil, errors.Wrap(err, "cannot make a DHCPv6 message")
	}
	m.MessageType = kind
	m.AddOption(dhcpv6.OptElapsedTime(0))
	if b != nil {
		m.AddOption(b.reply.Options.OneIANA())
		if kind == dhcpv6.MessageTypeRenew {
			m.AddOption(dhcpv6.OptServerID(b.reply.Options.ServerID()))
		}
	}
	return c.send(ctx, client, m, time.Now(), dhcpv6.MessageTypeReply)
}

// send sends m to all servers, and takes the first usable answer of a kind.
func (c *Client) send(ctx context.Context, client *nclient6.Client, m *dhcpv6.Message, begun time.Time, kind dhcpv6.MessageType) (*bound, error) {
	var got *lease.Lease
	var refused error
	// The zone is a number: the standard library remembers names for a minute, and an interface may come back with another number.
	to := &net.UDPAddr{IP: nclient6.AllDHCPRelayAgentsAndServers.IP, Port: dhcpv6.DefaultServerPort, Zone: strconv.Itoa(c.cfg.Index)}
	reply, err := client.SendAndRead(ctx, to, m, func(m *dhcpv6.Message) bool {
		if m.MessageType != kind {
			return false
		}
		l, err := Parse(m, begun, c.cfg.Address)
		if err != nil {
			refused = err
			return false
		}
		got = l
		return true
	})
	switch {
	case err == nil:
		return &bound{Lease: got, reply: reply}, nil
	case refused != nil:
		return nil, refused
	case errors.Is(err, nclient6.ErrNoResponse):
		return nil, errors.Errorf("cannot use DHCPv6 on %s: no server answers", c.cfg.Name)
	}
	return nil, errors.Wrapf(err, "cannot use DHCPv6 on %s", c.cfg.Name)
}

// options are those of every message. The client's identifier is made of the MAC, so that it is the same after a new installation.
func (c *Client) options() []dhcpv6.Modifier {
	return []dhcpv6.Modifier{
		func(d dhcpv6.DHCPv6) {
			d.UpdateOption(dhcpv6.OptClientID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: c.cfg.MAC}))
		},
		func(d dhcpv6.DHCPv6) { d.UpdateOption(requested()) },
	}
}

func requested() dhcpv6.Option {
	return dhcpv6.OptRequestedOption(
		dhcpv6.OptionDNSRecursiveNameServer, dhcpv6.OptionDomainSearchList, dhcpv6.OptionNTPServer, dhcpv6.OptionSNTPServerList,
		dhcpv6.OptionInformationRefreshTime,
	)
}

func (c *Client) open(ctx context.Context) (*nclient6.Client, error) {
	var conn net.PacketConn
	err := c.cfg.Within(func() (err error) {
		conn, err = listen(ctx, c.cfg.Name)
		return err
	})
	if err != nil {
		return nil, err
	}
	client, err := nclient6.NewWithConn(guarded{PacketConn: conn, log: c.cfg.Log}, c.cfg.MAC, nclient6.WithTimeout(patience), nclient6.WithRetry(tries))
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
