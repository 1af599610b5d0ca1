package network

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/node/init/network/lease"
	"github.com/croft-edge/croft/pkg/supervise"
)

// Network is the machine's own network.
type Network struct {
	cfg    Config
	kernel *kernel

	mu sync.Mutex
	// workers are those of the interfaces by index.
	workers map[int]*worker
	problem string
	open    sync.WaitGroup
	// writing is held from the look at what the networks say until it is written: what is older never comes last.
	writing sync.Mutex
}

// New makes the network, which does nothing before Run.
func New(cfg Config) (*Network, error) {
	k, err := machine()
	if err != nil {
		return nil, err
	}
	return newNetwork(cfg, k)
}

func newNetwork(cfg Config, k *kernel) (*Network, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Network{cfg: cfg, kernel: k, workers: map[int]*worker{}}, nil
}

// Run brings the network up and keeps it up until ctx is done. Addresses and routes stay then.
func (n *Network) Run(ctx context.Context) error {
	defer n.kernel.links.Close()
	defer n.open.Wait()
	defer func() {
		for _, w := range n.ranked() {
			w.stop()
		}
	}()
	return supervise.Keep(ctx, n.cfg.Log, "network", supervise.DefaultBackoff(), n.watch)
}

// watch follows the kernel's interfaces. The workers of those that are still there live on when it is run again.
func (n *Network) watch(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	updates := make(chan netlink.LinkUpdate, 64)
	defer func() {
		// The subscription's reader ends once its socket is closed and what it has read is taken.
		stop(nil)
		for range updates {
		}
	}()
	err := netlink.LinkSubscribeWithOptions(updates, ctx.Done(), netlink.LinkSubscribeOptions{
		Namespace: n.kernel.space, ListExisting: true, ReceiveBufferSize: 1 << 20,
		ErrorCallback: func(err error) { stop(errors.Wrap(err, "cannot follow the machine's interfaces")) },
	})
	if err != nil {
		close(updates)
		return errors.Wrap(err, "cannot follow the machine's interfaces")
	}
	if err := n.forget(); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case update, ok := <-updates:
			if !ok {
				return errors.New("cannot follow the machine's interfaces: the kernel tells no more of them")
			}
			n.seen(ctx, update)
		}
	}
}

// forget ends the workers of interfaces that have gone unseen.
func (n *Network) forget() error {
	links, err := n.kernel.links.LinkList()
	if err != nil {
		return errors.Wrap(err, "cannot list the machine's interfaces")
	}
	for _, w := range n.ranked() {
		if !slices.ContainsFunc(links, func(l netlink.Link) bool { return l.Attrs().Index == w.index }) {
			n.gone(w.index)
		}
	}
	return nil
}

// seen is told of each interface that is there, changes or goes.
func (n *Network) seen(ctx context.Context, update netlink.LinkUpdate) {
	a := update.Link.Attrs()
	if update.Header.Type == unix.RTM_DELLINK {
		n.gone(a.Index)
		return
	}
	n.mu.Lock()
	w := n.workers[a.Index]
	n.mu.Unlock()
	if w == nil && n.wanted(update.Link) {
		n.start(ctx, update.Link)
		return
	}
	if w != nil {
		w.poke()
	}
}

// wanted reports whether an interface is one of the machine's own. One that the operator has named may be of any kind.
func (n *Network) wanted(link netlink.Link) bool {
	a := link.Attrs()
	if a.Flags&net.FlagLoopback != 0 || slices.ContainsFunc(ownPrefixes(), func(p string) bool { return strings.HasPrefix(a.Name, p) }) {
		return false
	}
	if slices.Contains(n.cfg.Interfaces, a.Name) || slices.ContainsFunc(n.cfg.Static, func(s Static) bool { return s.names(a) }) {
		return true
	}
	return len(n.cfg.Interfaces) == 0 && a.EncapType == "ether" && len(a.HardwareAddr) == 6 && n.kernel.hardware(a.Name)
}

// ownPrefixes begin the names of interfaces that croft makes for workloads.
func ownPrefixes() []string { return []string{"croft", "cr-"} }

func (s Static) names(a *netlink.LinkAttrs) bool {
	return s.Interface != "" && s.Interface == a.Name || len(s.MAC) > 0 && slices.Equal(s.MAC, a.HardwareAddr)
}

// start starts an interface's worker. Its rank is its place in the settings, or the first free one.
func (n *Network) start(ctx context.Context, link netlink.Link) {
	a := link.Attrs()
	n.mu.Lock()
	defer n.mu.Unlock()
	rank := slices.Index(n.cfg.Interfaces, a.Name)
	if rank < 0 {
		rank = len(n.cfg.Interfaces)
		for n.taken(rank) {
			rank++
		}
	}
	static := Static{}
	for _, s := range n.cfg.Static {
		if s.names(a) || rank == 0 && s.Interface == "" && len(s.MAC) == 0 {
			static = s
			break
		}
	}
	// The worker outlives the subscription: it ends with its interface, or with Run.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := newWorker(n, a, static, rank)
	w.stop = stop
	n.workers[a.Index] = w
	n.open.Go(func() {
		_ = supervise.Keep(life, n.cfg.Log, "interface "+a.Name, supervise.DefaultBackoff(), w.run)
	})
}

func (n *Network) taken(rank int) bool {
	for _, w := range n.workers {
		if w.rank == rank {
			return true
		}
	}
	return false
}

// gone ends an interface's worker.
func (n *Network) gone(index int) {
	n.mu.Lock()
	w := n.workers[index]
	delete(n.workers, index)
	n.mu.Unlock()
	if w != nil {
		w.stop()
		n.changed()
	}
}

// ranked are the workers, the first interface's first.
func (n *Network) ranked() []*worker {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]*worker, 0, len(n.workers))
	for _, w := range n.workers {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b *worker) int { return cmp.Compare(a.rank, b.rank) })
	return out
}

// changed writes what resolvers read, and tells whoever wants to know.
func (n *Network) changed() {
	n.writing.Lock()
	dns, search, _ := joined(n.ranked())
	problem := ""
	if err := writeResolvers(n.cfg.ResolvConf, dns, search); err != nil {
		problem = err.Error()
	}
	n.writing.Unlock()
	n.mu.Lock()
	if problem != n.problem && problem != "" {
		n.cfg.Log.Error().Str("err", problem).Msg("name servers aren't written")
	}
	n.problem = problem
	n.mu.Unlock()
	if n.cfg.Changed != nil {
		supervise.Do(n.cfg.Log, "network", n.cfg.Changed)
	}
}

func joined(workers []*worker) ([]netip.Addr, []string, []string) {
	var set, given []*lease.Lease
	for _, w := range workers {
		s, g := w.gives()
		set, given = append(set, s...), append(given, g...)
	}
	return join(set, given)
}
