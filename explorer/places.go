package explorer

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/explorer/api"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// connections limits the connections that are open at a time. Where the process may open fewer
// files, the total is its files less reservedFiles, and a source may have a quarter of it.
var connections = limit.Limit{Name: "explorer-connections", Per: "source", Each: 16384, Total: 65536}

// reservedFiles are for the database, the listener and the operator's requests; fewestFiles is the
// least that an explorer needs in all.
const (
	reservedFiles = 64
	fewestFiles   = 128
)

// connectionLimit is connections, reduced to the files that this process may open.
func connectionLimit(p api.Policy) (limit.Limit, error) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return limit.Limit{}, errors.Wrap(err, "cannot read the limit of open files")
	}
	if files.Cur < fewestFiles {
		return limit.Limit{}, node.Errorf(node.Invalid, "cannot serve with at most %d open files: at least %d are needed", files.Cur, fewestFiles)
	}
	l := connections
	if files.Cur < uint64(l.Total)+reservedFiles {
		l.Total = int64(files.Cur) - reservedFiles
	}
	l.Each = min(l.Each, l.Total/4)
	if p.AddressRate == 0 {
		l.Each = 0 // behind a proxy all come from one address
	}
	return l, nil
}

// fit reduces the operator's policy to the available connections: waiting polls may take three
// quarters of them, tunnels half.
func fit(p api.Policy, l limit.Limit) api.Policy {
	p.MaxPolls = min(p.MaxPolls, int(l.Total*3/4))
	p.MaxTunnels = min(p.MaxTunnels, int(l.Total/2))
	return p
}

// places is a listener that bounds its open connections. When it is full, a new connection
// displaces the one that has been idle longest: one that waits for its first or next request, or is
// still at its handshake or headers. Connections with a request in hand, such as long polls and
// tunnels, stay.
type places struct {
	net.Listener
	limit limit.Limit

	mu      sync.Mutex
	open    int
	idle    *list.List // of *place, the longest idle first
	sources map[string]*origin
}

// origin is one source's connections.
type origin struct {
	open int
	idle *list.List
}

// place is one connection.
type place struct {
	net.Conn
	places *places
	source string
	gone   bool
	// all and own are its elements in the lists of idle connections; nil while it is busy.
	all, own *list.Element
}

func newPlaces(l net.Listener, most limit.Limit) *places {
	return &places{Listener: l, limit: most, idle: list.New(), sources: map[string]*origin{}}
}

// Accept implements net.Listener.
func (p *places) Accept() (net.Conn, error) {
	for {
		conn, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c, displaced := p.take(conn); c != nil {
			if displaced != nil {
				_ = displaced.Conn.Close()
			}
			return c, nil
		}
		_ = conn.Close()
	}
}

// take gives a connection a place, perhaps another's: the caller must close displaced.
func (p *places) take(conn net.Conn) (taken, displaced *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := limit.SourceOf(conn.RemoteAddr())
	o := p.sources[from]
	if o == nil {
		o = &origin{idle: list.New()}
	}
	var full *list.List
	switch {
	case p.limit.Each > 0 && int64(o.open) >= p.limit.Each:
		full = o.idle
	case int64(p.open) >= p.limit.Total:
		full = p.idle
	}
	if full != nil {
		p.limit.Reached()
		oldest := full.Front()
		if oldest == nil {
			return nil, nil
		}
		displaced = oldest.Value.(*place)
		p.drop(displaced)
	}
	p.sources[from] = o
	taken = &place{Conn: conn, places: p, source: from}
	p.open++
	o.open++
	p.rest(taken)
	return taken, displaced
}

// rest marks a connection as idle. The lock is held.
func (p *places) rest(c *place) {
	if c.gone || c.all != nil {
		return
	}
	c.all, c.own = p.idle.PushBack(c), p.sources[c.source].idle.PushBack(c)
}

// wake marks a connection as busy. The lock is held.
func (p *places) wake(c *place) {
	if c.all == nil {
		return
	}
	p.idle.Remove(c.all)
	p.sources[c.source].idle.Remove(c.own)
	c.all, c.own = nil, nil
}

// drop frees a place. The lock is held.
func (p *places) drop(c *place) {
	if c.gone {
		return
	}
	p.wake(c)
	c.gone = true
	p.open--
	o := p.sources[c.source]
	if o.open--; o.open == 0 {
		delete(p.sources, c.source)
	}
}

// Close implements net.Conn.
func (c *place) Close() error {
	c.places.mu.Lock()
	c.places.drop(c)
	c.places.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes the writing side.
func (c *place) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// changed is http.Server's ConnState.
func (p *places) changed(conn net.Conn, state http.ConnState) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, ok := conn.(*place)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateIdle:
		p.rest(c)
	case http.StateActive, http.StateHijacked:
		p.wake(c)
	case http.StateNew, http.StateClosed: // taken, or dropped by Close
	}
}
