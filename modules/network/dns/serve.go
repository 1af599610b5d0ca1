package dns

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/time/rate"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	// pause is how long a socket rests that can't be read.
	pause = 100 * time.Millisecond
	// breath is how long one rests after something beyond the limits. What
	// comes meanwhile is the kernel's to drop: a flood costs this process no
	// more than the rate that is allowed.
	breath = 20 * time.Millisecond
)

// zone serves one namespace. openZone starts it, close ends it and all that it
// has started.
type zone struct {
	id, namespace string
	inode         uint64
	names         atomic.Pointer[names]

	cfg      Config
	sockets  *sockets
	forward  *forwarder
	limiter  *rate.Limiter
	forwards chan struct{}
	conns    chan struct{}

	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	queries, failures, dropped atomic.Uint64
	// broken has the last error of each socket that can't be read now.
	mu     sync.Mutex
	broken map[any]error
}

// openZone listens in z's namespace and starts to serve.
func openZone(cfg Config, u *upstreams, z Zone) (*zone, error) {
	made, err := listen(z.Namespace)
	if err != nil {
		return nil, node.Errorf(node.KindOf(err), "cannot serve the names of network resource %s: %w", z.ID, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out := &zone{
		id: z.ID, namespace: z.Namespace, inode: made.inode, cfg: cfg, sockets: made, forward: newForwarder(cfg, u),
		limiter:  rate.NewLimiter(rate.Limit(cfg.Limits.Rate), cfg.Limits.Rate),
		forwards: make(chan struct{}, cfg.Limits.Forwards), conns: make(chan struct{}, cfg.Limits.Connections),
		ctx: ctx, cancel: cancel, broken: map[any]error{},
	}
	out.names.Store(newNames(z))
	for _, conn := range made.udp {
		out.wait.Go(func() { out.serveUDP(conn) })
	}
	for _, l := range made.tcp {
		out.wait.Go(func() { out.serveTCP(l) })
	}
	return out, nil
}

// close frees the sockets, and returns when nothing of the zone runs any more.
func (z *zone) close() {
	z.cancel()
	z.sockets.close()
	z.wait.Wait()
}

// resolve finishes what judge has left: it returns the answer to a query that
// is to be forwarded. The caller has a place in forwards.
func (z *zone) resolve(query *dns.Msg) *dns.Msg {
	reply, err := z.forward.ask(z.ctx, query)
	if err != nil {
		// What failed is counted; a line each would be a tenant's to fill.
		return z.failed(query)
	}
	return reply
}

func (z *zone) failed(query *dns.Msg) *dns.Msg {
	z.failures.Add(1)
	return answer(query, dns.RcodeServerFailure)
}

// enter takes a place in forwards; leave gives it back.
func (z *zone) enter() bool {
	select {
	case z.forwards <- struct{}{}:
		return true
	default:
		return false
	}
}

func (z *zone) leave() { <-z.forwards }

// admit counts a query and says whether it is within the rate.
func (z *zone) admit() bool {
	z.queries.Add(1)
	if z.limiter.Allow() {
		return true
	}
	z.dropped.Add(1)
	return false
}

// rest remembers that a socket can't be read and waits a little. It returns
// false when the zone is closed.
func (z *zone) rest(socket any, err error) bool {
	if z.ctx.Err() != nil {
		return false
	}
	z.mu.Lock()
	z.broken[socket] = err
	z.mu.Unlock()
	return z.idle(pause)
}

// idle waits. It returns false when the zone is closed.
func (z *zone) idle(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-z.ctx.Done():
		return false
	}
}

// works forgets what rest remembered.
func (z *zone) works(socket any) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.broken, socket)
}

// failure is why some socket isn't being read, nil when all are.
func (z *zone) failure() error {
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, err := range z.broken {
		return err
	}
	return nil
}

// status is for the server, which lets one change happen at a time.
func (z *zone) status() ZoneStatus {
	out := ZoneStatus{
		ID: z.id, Namespace: z.namespace, NamespaceInode: z.inode, Listening: true, Digest: z.names.Load().digest,
		Queries: z.queries.Load(), Failures: z.failures.Load(), Dropped: z.dropped.Load(),
	}
	if err := z.failure(); err != nil {
		out.Listening, out.Err = false, err.Error()
	}
	return out
}

// serveUDP answers what it can at once, and leaves what is forwarded to a
// goroutine each, of which there are few.
func (z *zone) serveUDP(conn *net.UDPConn) {
	buffer := make([]byte, maxQuery+1)
	for {
		n, from, err := dns.ReadFromSessionUDP(conn, buffer)
		if err != nil {
			if !z.rest(conn, err) {
				return
			}
			continue
		}
		z.works(conn)
		if z.admit() {
			z.handleUDP(conn, from, buffer[:n])
		} else if !z.idle(breath) {
			return
		}
	}
}

func (z *zone) handleUDP(conn *net.UDPConn, from *dns.SessionUDP, packet []byte) {
	v := judge(z.names.Load(), packet)
	switch {
	case v.query == nil:
		z.writeUDP(conn, from, v.reply, v.size)
	case !z.enter():
		z.writeUDP(conn, from, z.failed(v.query), v.size)
	default:
		z.wait.Go(func() {
			defer z.leave()
			z.writeUDP(conn, from, z.resolve(v.query), v.size)
		})
	}
}

func (z *zone) writeUDP(conn *net.UDPConn, to *dns.SessionUDP, reply *dns.Msg, size int) {
	if reply == nil {
		return
	}
	out, err := pack(reply, size)
	if err != nil {
		return
	}
	// Who isn't there any more needs no answer, and UDP promises none.
	_, _ = dns.WriteToSessionUDP(conn, out, to)
}
