package redis

import (
	"context"
	stderrors "errors"
	"net"
	"sync"
	"syscall"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/bus/transport"
)

const (
	dialTimeout    = 5 * time.Second
	commandTimeout = 5 * time.Second
	// maxLinks is how many commands run at once, maxIdle how many idle connections
	// are kept.
	maxLinks = 16
	maxIdle  = 8
	// replyRoom is a reply's allowance beside a frame: keys, lengths, and data
	// that is read ahead.
	replyRoom = 64 << 10
)

// link is a connection to redis that can be given up at any moment.
type link struct {
	redigo.ConnWithTimeout
	net *boundedConn
	// forget takes it off the list of the links that Close closes.
	forget func()
	// aborted is set by do: the link can't be used again.
	aborted bool
}

// boundedConn reads no more between two calls of arm than a reply may have, and
// counts the bytes written. One goroutine reads and one writes.
type boundedConn struct {
	net.Conn
	room    int
	written int
}

func (c *boundedConn) arm() { c.room = transport.MaxFrame + replyRoom }

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.room <= 0 {
		return 0, errors.Errorf("cannot read a reply of more than %d bytes", transport.MaxFrame+replyRoom)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.room)])
	c.room -= n
	return n, err
}

func (c *boundedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written += n
	return n, err
}

// abort wakes the link's reader and writer; the link can't be used any more.
func (l *link) abort() { _ = l.net.Conn.Close() }

func (l *link) drop() {
	_ = l.Close()
	l.forget()
}

// do runs work, which uses the link, and gives the link up when ctx ends: aborted is set then.
func (l *link) do(ctx context.Context, work func() error) error {
	l.net.arm()
	stop := context.AfterFunc(ctx, l.abort)
	err := work()
	if stop() {
		return err
	}
	// The abort of AfterFunc may still be to come: it must not hit the link's next use.
	l.abort()
	l.aborted = true
	if err == nil {
		return nil // it was in time
	}
	return stderrors.Join(ctx.Err(), err)
}

// usable reports whether the other side still holds an idle link open, without
// waiting. A closed link that is found here costs a new connection; found later it
// would leave a call's outcome unknown.
func (l *link) usable() bool {
	sc, ok := l.net.Conn.(syscall.Conn)
	if !ok || l.Err() != nil {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		quiet = errors.Is(err, unix.EAGAIN)
		return true
	})
	return err == nil && quiet
}

// links makes connections, keeps idle ones, and tracks all.
type links struct {
	endpoint transport.Endpoint
	slots    chan struct{}

	mu     sync.Mutex
	idle   []*link
	all    map[*link]struct{}
	closed bool
}

func newLinks(e transport.Endpoint) *links {
	return &links{endpoint: e, slots: make(chan struct{}, maxLinks), all: map[*link]struct{}{}}
}

func (p *links) dial(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	l := &link{}
	var dialer net.Dialer
	conn, err := redigo.DialContext(ctx, p.endpoint.Network, p.endpoint.Address,
		redigo.DialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			l.net = &boundedConn{Conn: c}
			l.net.arm()
			return l.net, nil
		}),
		redigo.DialReadTimeout(commandTimeout), redigo.DialWriteTimeout(commandTimeout),
		redigo.DialUsername(p.endpoint.Username), redigo.DialPassword(p.endpoint.Password),
		redigo.DialDatabase(p.endpoint.DB))
	if err != nil {
		return nil, errors.Wrapf(err, "cannot connect to %s", p.endpoint.Shown)
	}
	l.ConnWithTimeout = conn.(redigo.ConnWithTimeout)
	l.forget = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.all, l)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close()
		return nil, transport.ErrClosed()
	}
	p.all[l] = struct{}{}
	return l, nil
}

// use runs work on a link of its own, an idle one if there is one.
func (p *links) use(ctx context.Context, work func(l *link) error) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return errors.Wrapf(ctx.Err(), "cannot get a connection, %d are in use", maxLinks)
	}
	defer func() { <-p.slots }()
	l, err := p.get(ctx)
	if err != nil {
		return err
	}
	err = l.do(ctx, func() error { return work(l) })
	p.put(l)
	return err
}

func (p *links) get(ctx context.Context) (*link, error) {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if p.closed || n == 0 {
			p.mu.Unlock()
			return p.dial(ctx)
		}
		l := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if l.usable() {
			return l, nil
		}
		l.drop()
	}
}

func (p *links) put(l *link) {
	p.mu.Lock()
	keep := !p.closed && len(p.idle) < maxIdle && l.Err() == nil && !l.aborted
	if keep {
		p.idle = append(p.idle, l)
	}
	p.mu.Unlock()
	if !keep {
		l.drop()
	}
}

func (p *links) close() {
	p.mu.Lock()
	p.closed = true
	p.idle = nil
	all := make([]*link, 0, len(p.all))
	for l := range p.all {
		all = append(all, l)
	}
	p.mu.Unlock()
	for _, l := range all {
		l.drop()
	}
}
