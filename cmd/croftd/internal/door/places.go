package door

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/run"
)

// What users and strangers may take of the door. A stranger is who hasn't shown
// yet, by a signed request on the connection, that they have a workload here: keys are
// free, so nothing else tells them apart from anybody. Strangers' places are
// counted apart from owners'.
var (
	strangerPlaces = limit.Limit{Name: "door-strangers", Per: "source", Each: 32, Total: 256}
	tunnelPlaces   = limit.Limit{Name: "door-tunnel-strangers", Total: 64}
	ownerPlaces    = limit.Limit{Name: "door-owners", Per: "user", Each: 32, Total: 512}
	ownerSources   = limit.Limit{Name: "door-owner-sources", Per: "source", Each: 128}
	ownerStreams   = limit.Limit{Name: "door-streams", Per: "user", Each: 16, Total: 512}
)

// Limits bound what users take of the node.
type Limits struct {
	// Strangers are connections of who isn't known yet, TunnelStrangers such that
	// came through the tunnel: where these come from, only the explorer knows.
	Strangers, TunnelStrangers limit.Limit
	// Owners and OwnerSources are connections of users who have workloads here.
	Owners, OwnerSources limit.Limit
	// Streams are logs that are followed, uses that are watched and
	// commands that run.
	Streams limit.Limit
	// Greeting is how long somebody may stay a stranger, from the first byte on.
	Greeting time.Duration
	// Header, Body and Idle are how long a request's head (or a handshake), its body
	// and the next request may take to come.
	Header time.Duration
	Body   time.Duration
	Idle   time.Duration
	// Stuck is how long a reader may take nothing of a stream.
	Stuck time.Duration
	// Watch is the time between two readings of a use that is watched.
	Watch time.Duration
}

func (l Limits) orDefault() Limits {
	for _, n := range []struct {
		field *limit.Limit
		value limit.Limit
	}{
		{&l.Strangers, strangerPlaces}, {&l.TunnelStrangers, tunnelPlaces}, {&l.Owners, ownerPlaces},
		{&l.OwnerSources, ownerSources}, {&l.Streams, ownerStreams},
	} {
		if n.field.Name == "" {
			*n.field = n.value
		}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&l.Greeting, 10 * time.Second}, {&l.Header, 10 * time.Second}, {&l.Body, 20 * time.Second}, {&l.Idle, time.Minute},
		{&l.Stuck, 10 * time.Minute}, {&l.Watch, 2 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return l
}

// places are the door's connections.
type places struct {
	greeting                  time.Duration
	strangers, tunnel, owners *limit.Places
	sources                   *limit.Shares
}

func (l Limits) places() places {
	return places{
		greeting: l.Greeting, strangers: l.Strangers.Places(true), tunnel: l.TunnelStrangers.Places(true),
		owners: l.Owners.Places(false), sources: l.OwnerSources.Shares(),
	}
}

// of gives what a listener accepts a stranger's place.
func (p places) of(l net.Listener) net.Listener { return receiving{l, p} }

type receiving struct {
	net.Listener
	places places
}

// Accept implements net.Listener.
func (r receiving) Accept() (net.Conn, error) {
	for {
		conn, err := r.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if v := r.places.admit(conn); v != nil {
			return v, nil
		}
		_ = conn.Close()
	}
}

// admit makes conn a stranger's. The oldest of the source with most strangers makes
// room; nil when there is no room at all.
func (p places) admit(conn net.Conn) *visitor {
	v := &visitor{Conn: conn, places: p}
	v.mu.Lock()
	defer v.mu.Unlock()
	var err error
	if _, through := conn.RemoteAddr().(tunnelAddress); through {
		v.leave, err = p.tunnel.Take("", v.end)
	} else {
		v.source = limit.SourceOf(conn.RemoteAddr())
		v.leave, err = p.strangers.Take(v.source, v.end)
	}
	if err != nil {
		return nil
	}
	v.timer = time.AfterFunc(p.greeting, v.end)
	return v
}

// visitor is a connection that has a place until it is closed.
type visitor struct {
	net.Conn
	places places
	// source is empty where it came through the tunnel.
	source string

	mu     sync.Mutex
	leave  func()
	timer  *time.Timer
	user   string
	closed bool
}

// end closes it for another's sake, or for its own lateness. It doesn't wait: what
// carries the connection may take long to close it.
func (v *visitor) end() {
	go func() { _ = run.Catch("door end", v.Close) }()
}

// stay gives it an owner's place, once. Busy when the user, or where they come
// from, has enough.
func (v *visitor) stay(user string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.user != "" || v.closed {
		return nil
	}
	leave, err := v.places.owners.Take(user, v.end)
	if err != nil {
		return busy(err)
	}
	if v.source != "" {
		source, err := v.places.sources.Take(v.source, 1)
		if err != nil {
			leave()
			return busy(err)
		}
		owner := leave
		leave = func() { owner(); source() }
	}
	v.timer.Stop()
	v.leave()
	v.leave, v.user = leave, user
	return nil
}

func busy(err error) error {
	return node.WithKind(node.Busy, errors.Wrap(err, "cannot serve another connection"))
}

// Close implements net.Conn.
func (v *visitor) Close() error {
	v.mu.Lock()
	if !v.closed {
		v.closed = true
		v.timer.Stop()
		v.leave()
	}
	v.mu.Unlock()
	return v.Conn.Close()
}

// CloseWrite says that nothing more is written.
func (v *visitor) CloseWrite() error {
	if half, ok := v.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// visitorKey is where a connection's visitor is found in its context.
type visitorKey struct{}

func withVisitor(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	return context.WithValue(ctx, visitorKey{}, c)
}

// stay gives the connection of a request to its user.
func stay(ctx context.Context, user string) error {
	v, ok := ctx.Value(visitorKey{}).(*visitor)
	if !ok {
		return nil
	}
	return v.stay(user)
}
