package network

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/node/init/network/dhcp4"
	"github.com/croft-edge/croft/bootstrap/node/init/network/dhcp6"
	"github.com/croft-edge/croft/bootstrap/node/init/network/lease"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/supervise"
)

const (
	// firstMetric is the first interface's, metricStep how far the next one's is from it. They are below the kernel's own of 1024 for
	// advertised routes.
	firstMetric, metricStep = 100, 10
	// routersTime is how long after the carrier routers are waited for with short looks, of shortLook each. Later ones are seen
	// by a look each longLook, which also repairs what somebody else removed.
	routersTime         = 16 * time.Second
	shortLook, longLook = time.Second, time.Minute
)

// family is what is known of one family of IP on an interface.
type family struct {
	lease *lease.Lease
	err   string
	// settled is whether there was an answer since the start.
	settled bool
}

// facts are an interface's, as read last.
type facts struct {
	name    string
	mac     net.HardwareAddr
	carrier bool
	mtu     int
}

// worker keeps one interface up.
type worker struct {
	kernel *kernel
	cfg    Config
	index  int
	rank   int
	static *lease.Lease
	set    Static
	wake   chan struct{}
	stop   context.CancelFunc
	tell   func()

	mu sync.Mutex
	known
}

// known is what a worker shows of itself.
type known struct {
	link      facts
	four, six family
	failed    string
}

func newWorker(n *Network, a *netlink.LinkAttrs, s Static, rank int) *worker {
	w := &worker{kernel: n.kernel, cfg: n.cfg, index: a.Index, rank: rank, set: s, static: s.lease(), wake: make(chan struct{}, 1), tell: n.changed}
	w.link = facts{name: a.Name, mac: a.HardwareAddr}
	w.cfg.Log = n.cfg.Log.With().Str("interface", a.Name).Logger()
	w.four.settled, w.six.settled = !w.uses4(), !w.uses6()
	return w
}

func (w *worker) uses4() bool { return w.cfg.DHCP4 && !w.set.has(true) }
func (w *worker) uses6() bool { return w.cfg.DHCP6 && !w.set.has(false) }
func (w *worker) metric() int { return firstMetric + metricStep*w.rank }

// poke has the worker look at its interface.
func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// leases are all of the interface; the caller holds the lock.
func (w *worker) leases() []*lease.Lease {
	out := []*lease.Lease{w.static}
	for _, l := range []*lease.Lease{w.four.lease, w.six.lease} {
		if l != nil {
			out = append(out, l)
		}
	}
	return out
}

// gives is what the interface's settings and its networks say of servers.
func (w *worker) gives() (set, given []*lease.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.leases()
	return all[:1], all[1:]
}

// problem is what fails now; the caller holds the lock.
func (w *worker) problem() string {
	var out []string
	for _, p := range []string{w.failed, w.four.err, w.six.err} {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "; ")
}

// run keeps the interface up until ctx is done or the interface is gone.
func (w *worker) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop()
	s := session{worker: w, parts: &parts}
	w.tell()
	for {
		next, err := s.look(ctx)
		if err != nil {
			return err
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-w.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// session is one run of a worker.
type session struct {
	*worker
	parts *sync.WaitGroup
	four  *dhcp4.Client
	six   context.CancelFunc
	// kind6 is what DHCPv6 is used for.
	kind6 kind6
	// mtu is the interface's own while a lease has set another one, and 0 else.
	mtu int
	// up is when the carrier came; zero without one. silent is whether it was logged that there is no IPv6.
	up     time.Time
	silent bool
}

type kind6 int

const (
	nothing6 kind6 = iota
	servers6
	address6
)

// look makes the interface what it should be, and returns when to look again.
func (s *session) look(ctx context.Context) (time.Duration, error) {
	link, err := s.kernel.link(s.index)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) || errors.Is(err, unix.ENODEV) {
		return 0, supervise.ErrEnded
	}
	if err != nil {
		return 0, err
	}
	a := link.Attrs()
	carrier := a.Flags&net.FlagUp != 0 && a.RawFlags&unix.IFF_LOWER_UP != 0
	failed := s.kernel.prepare(link, strconv.Itoa(s.metric()))
	s.carrier(ctx, link, carrier)
	s.mu.Lock()
	before := s.link
	s.link = facts{name: a.Name, mac: a.HardwareAddr, carrier: carrier, mtu: a.MTU}
	w := want{leases: s.leases(), metric: s.metric(), settled4: s.worker.four.settled, settled6: s.worker.six.settled}
	s.mu.Unlock()
	w.mtu = s.wantedMTU(w.leases, a.MTU)
	if err := s.kernel.apply(link, w); err != nil {
		failed = err
	}
	s.note(failed)
	if before.carrier != carrier || before.name != a.Name {
		s.tell()
	}
	return s.look6(ctx, link), nil
}

// wantedMTU is that of a lease, or the interface's own again once no lease has one. 0 leaves it as it is.
func (s *session) wantedMTU(leases []*lease.Lease, now int) int {
	for _, l := range leases {
		if l.MTU == 0 {
			continue
		}
		if s.mtu == 0 {
			s.mtu = now
		}
		return l.MTU
	}
	before := s.mtu
	s.mtu = 0
	return before
}

// note remembers what failed with the interface itself, and logs it when it is new.
func (s *session) note(err error) {
	text := ""
	if err != nil {
		text = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	s.mu.Lock()
	fresh := text != s.failed && text != ""
	s.failed = text
	s.mu.Unlock()
	if fresh {
		s.cfg.Log.Warn().Str("err", text).Msg("the interface isn't as it should be")
	}
}

// carrier starts DHCP when a cable is plugged in, and has it ask anew when that happens again.
func (s *session) carrier(ctx context.Context, link netlink.Link, now bool) {
	came := now && s.up.IsZero()
	switch {
	case came:
		s.up = time.Now()
	case !now && !s.up.IsZero():
		s.up = time.Time{}
		s.end6()
		s.cfg.Log.Warn().Msg("the interface has lost its carrier")
	}
	if !came {
		return
	}
	s.cfg.Log.Info().Msg("the interface has a carrier")
	if s.four != nil {
		s.four.Again()
		return
	}
	if !s.uses4() {
		return
	}
	a := link.Attrs()
	s.four = dhcp4.New(dhcp4.Config{
		Name: a.Name, Index: a.Index, MAC: a.HardwareAddr, Hostname: s.cfg.Hostname, Requested: s.kernel.leasedAddress(link),
		Apply: s.given(&s.worker.four), Trouble: s.trouble(&s.worker.four), Within: s.kernel.within, Log: s.cfg.Log,
	})
	client := s.four
	s.parts.Go(func() { _ = supervise.Keep(ctx, s.cfg.Log, "dhcp4", supervise.DefaultBackoff(), client.Run) })
}

// look6 looks for a router of IPv6, and asks its network's servers for what the router doesn't say: addresses where it says so, else only
// name and time servers. It returns when to look again.
func (s *session) look6(ctx context.Context, link netlink.Link) time.Duration {
	later := backoff.Together(longLook)
	if s.up.IsZero() || !s.uses6() {
		return later
	}
	spoke, gives, err := s.kernel.router(s.index)
	if err != nil {
		s.note(err)
		return later
	}
	want := nothing6
	switch {
	case spoke && gives:
		want = address6
	case spoke:
		want = servers6
	}
	// A router's word stays in the kernel until the interface goes down; that of a new network may differ from the old one's.
	if want != s.kind6 {
		s.end6()
		s.begin6(ctx, link, want)
	}
	switch waited := time.Since(s.up) > routersTime; {
	case want != nothing6:
		return later
	case !waited:
		return shortLook
	case !s.silent:
		s.silent = true
		s.cfg.Log.Info().Msg("no IPv6 router is heard: IPv6 isn't used until there is one")
	}
	return later
}

func (s *session) begin6(ctx context.Context, link netlink.Link, kind kind6) {
	s.kind6 = kind
	if kind == nothing6 {
		return
	}
	var life context.Context
	life, s.six = context.WithCancel(ctx)
	a := link.Attrs()
	client := dhcp6.New(dhcp6.Config{
		Name: a.Name, Index: a.Index, MAC: a.HardwareAddr, Address: kind == address6,
		Apply: s.given(&s.worker.six), Trouble: s.trouble(&s.worker.six), Within: s.kernel.within, Log: s.cfg.Log,
	})
	s.parts.Go(func() { _ = supervise.Keep(life, s.cfg.Log, "dhcp6", supervise.DefaultBackoff(), client.Run) })
}

// end6 ends DHCPv6. What it gave stays until it is replaced, or ends.
func (s *session) end6() {
	if s.six != nil {
		s.six()
	}
	s.six, s.kind6 = nil, nothing6
}

// given takes a client's lease.
func (w *worker) given(f *family) func(*lease.Lease) {
	return func(l *lease.Lease) {
		w.mu.Lock()
		before := f.lease
		f.lease, f.settled = l, true
		w.mu.Unlock()
		w.poke()
		if before != nil && l != nil && same(before, l) {
			return
		}
		switch {
		case l == nil && before != nil:
			w.cfg.Log.Warn().Str("server", before.Server).Msg("a lease has ended: its addresses are given up")
		case l != nil:
			event(w.cfg.Log.Info(), l).Msg("a lease is held")
		}
		w.tell()
	}
}

func event(e *zerolog.Event, l *lease.Lease) *zerolog.Event {
	return e.Str("server", l.Server).Str("addresses", fmt.Sprint(l.Addresses)).Str("dns", fmt.Sprint(l.DNS)).Dur("lasts", l.Times.Lasts)
}

// same reports whether two leases give the same, whatever their times.
func same(a, b *lease.Lease) bool {
	text := func(l *lease.Lease) string {
		return fmt.Sprint(l.Server, l.Addresses, l.Routes, l.MTU, l.DNS, l.Search, l.NTP)
	}
	return text(a) == text(b)
}

// trouble takes what fails in a client. It is logged when it is new.
func (w *worker) trouble(f *family) func(error) {
	return func(err error) {
		text := ""
		if err != nil {
			text = err.Error()
		}
		w.mu.Lock()
		fresh := text != f.err && text != ""
		f.err = text
		w.mu.Unlock()
		if fresh {
			w.cfg.Log.Warn().Str("err", text).Msg("the network gives no lease: it is asked again")
		}
	}
}
