package dns

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	// pause is how long a socket rests that can't be read.
	pause = 100 * time.Millisecond
	// breath is how long one rests after a query beyond the limits. The kernel
	// drops the queries that come meanwhile: a flood costs this process no more
	// than the rate that is allowed.
	breath = 20 * time.Millisecond
)

// zone serves one namespace. openZone starts it; close ends it with all of its
// goroutines.
type zone struct {
	id, namespace string
	names         atomic.Pointer[names]

	sockets *sockets
	forward *forwarder
	quota   *quota
	health  health
	// idleTime is how long a TCP connection may be silent.
	idleTime time.Duration

	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

// openZone listens in z's namespace and starts to serve.
func openZone(cfg Config, u *upstreams, z Zone) (*zone, error) {
	made, err := listen(z.Namespace)
	if err != nil {
		return nil, node.Errorf(node.KindOf(err), "cannot serve the names of network resource %s: %w", z.ID, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out := &zone{
		id: z.ID, namespace: z.Namespace, sockets: made, forward: newForwarder(cfg, u), quota: newQuota(cfg.Limits),
		idleTime: cfg.Idle, ctx: ctx, cancel: cancel,
	}
	out.names.Store(newNames(z))
	out.forward.servers.Store(&z.Servers)
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

// resolve returns the answer to a query that judge left to be forwarded. The
// caller holds one of the quota's slots.
func (z *zone) resolve(query *dns.Msg) *dns.Msg {
	reply, err := z.forward.ask(z.ctx, query)
	if err != nil {
		// Failures are counted, not logged: a tenant could fill the log.
		return z.failed(query)
	}
	return reply
}

func (z *zone) failed(query *dns.Msg) *dns.Msg {
	z.quota.failures.Add(1)
	return answer(query, dns.RcodeServerFailure)
}

// rest notes that a socket can't be read and waits a little. It returns false
// when the zone is closed.
func (z *zone) rest(socket any, err error) bool {
	if z.ctx.Err() != nil {
		return false
	}
	z.health.failed(socket, err)
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

// status is for the server, which lets one change happen at a time.
func (z *zone) status() ZoneStatus {
	out := ZoneStatus{
		ID: z.id, Namespace: z.namespace, NamespaceInode: z.sockets.inode, Listening: true, Digest: z.names.Load().digest,
		Queries: z.quota.queries.Load(), Failures: z.quota.failures.Load(), Dropped: z.quota.dropped.Load(),
	}
	if err := z.health.failure(); err != nil {
		out.Listening, out.Err = false, err.Error()
	}
	return out
}

// serveUDP answers at once the queries that it can, and forwards each other one
// in a goroutine of its own; the quota bounds these.
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
		z.health.recovered(conn)
		if z.quota.admit() {
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
	case !z.quota.forward():
		z.writeUDP(conn, from, z.failed(v.query), v.size)
	default:
		z.wait.Go(func() {
			defer z.quota.forwarded()
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
	// A client that has gone needs no answer, and UDP promises none.
	_, _ = dns.WriteToSessionUDP(conn, out, to)
}
