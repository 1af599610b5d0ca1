package front

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/supervise"
)

// places limit the door's connections.
type places struct {
	greeting                  time.Duration
	strangers, tunnel, owners *limit.Places
	sources                   *limit.Shares
}

func placesOf(s wire.Setup) places {
	return places{
		greeting: s.Greeting, strangers: s.Limits[wire.Strangers].Places(true), tunnel: s.Limits[wire.TunnelStrangers].Places(true),
		owners: s.Limits[wire.Owners].Places(false), sources: s.Limits[wire.OwnerSources].Shares(),
	}
}

// of wraps a listener: each accepted connection takes a stranger's place.
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

// admit gives conn a stranger's place. When all are taken, the oldest connection of the source with
// most of them is closed; nil when that frees none.
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
	// source is empty for a connection through the tunnel.
	source string

	mu     sync.Mutex
	leave  func()
	timer  *time.Timer
	user   string
	link   *link
	closed bool
}

// end closes the connection to free its place, or because it is late. It doesn't wait, as closing may
// block.
func (v *visitor) end() {
	go func() { _ = supervise.Catch("door end", v.Close) }()
}

// stay moves the connection to an owner's place, once. It is refused when the user or the source has
// too many.
func (v *visitor) stay(user string) byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.user != "" || v.closed {
		return wire.StayOK
	}
	leave, err := v.places.owners.Take(user, v.end)
	var full *limit.Full
	switch {
	case errors.As(err, &full) && full.All:
		return wire.StayAllTaken
	case err != nil:
		return wire.StayUserHasAll
	}
	if v.source != "" {
		source, err := v.places.sources.Take(v.source, 1)
		if err != nil {
			leave()
			return wire.StaySourceHasAll
		}
		owner := leave
		leave = func() { owner(); source() }
	}
	v.timer.Stop()
	v.leave()
	v.leave, v.user = leave, user
	return wire.StayOK
}

// Close implements net.Conn.
func (v *visitor) Close() error {
	v.mu.Lock()
	if !v.closed {
		v.closed = true
		v.timer.Stop()
		v.leave()
		if v.link != nil {
			_ = v.link.Close()
		}
	}
	v.mu.Unlock()
	return v.Conn.Close()
}

// linked returns the connection's link to the agent; open makes it on first use.
func (v *visitor) linked(open func() (*link, error)) (*link, error) {
	v.mu.Lock()
	l := v.link
	v.mu.Unlock()
	if l != nil {
		return l, nil
	}
	l, err := open()
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		_ = l.Close()
		return nil, net.ErrClosed
	}
	v.link = l
	return l, nil
}

// CloseWrite closes the writing side.
func (v *visitor) CloseWrite() error {
	if half, ok := v.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// visitorKey is the context key of a connection's visitor.
type visitorKey struct{}

func withVisitor(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	return context.WithValue(ctx, visitorKey{}, c)
}
