package door

import (
	"net"
	"sync"

	"github.com/croft-edge/croft/pkg/node"
)

// inlet is a listener of connections that were made elsewhere.
type inlet struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newInlet() *inlet {
	return &inlet{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (i *inlet) put(conn net.Conn) {
	select {
	case i.conns <- conn:
	case <-i.closed:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (i *inlet) Accept() (net.Conn, error) {
	select {
	case conn := <-i.conns:
		return tunnelled{conn}, nil
	case <-i.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (i *inlet) Close() error {
	i.once.Do(func() { close(i.closed) })
	return nil
}

// Addr implements net.Listener.
func (i *inlet) Addr() net.Addr { return tunnelAddress{} }

// tunnelled is a connection whose other end is only known to the explorer.
type tunnelled struct{ net.Conn }

func (tunnelled) RemoteAddr() net.Addr { return tunnelAddress{} }

type tunnelAddress struct{}

func (tunnelAddress) Network() string { return "tunnel" }
func (tunnelAddress) String() string  { return "tunnel" }

// counter counts connections, of all and of each address.
type counter struct {
	limits Limits
	mu     sync.Mutex
	all    int
	from   map[string]int
}

func newCounter(l Limits) *counter { return &counter{limits: l, from: map[string]int{}} }

// limit closes what a listener accepts beyond the limits, unanswered.
func (c *counter) limit(l net.Listener) net.Listener { return limited{l, c} }

type limited struct {
	net.Listener
	count *counter
}

// Accept implements net.Listener.
func (l limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := hostOf(conn.RemoteAddr())
		if l.count.enter(from) {
			return &counted{Conn: conn, leave: sync.OnceFunc(func() { l.count.leave(from) })}, nil
		}
		_ = conn.Close()
	}
}

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

func (c *counter) enter(from string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := c.limits.AddressConnections
	if from == (tunnelAddress{}).String() {
		most = c.limits.TunnelConnections
	}
	if c.all >= c.limits.Connections || c.from[from] >= most {
		return false
	}
	c.all++
	c.from[from]++
	return true
}

func (c *counter) leave(from string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.from[from]--; c.from[from] == 0 {
		delete(c.from, from)
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// slots are the streams that users may have at a time.
type slots struct {
	most int
	all  sync.WaitGroup

	mu   sync.Mutex
	of   map[string]int
	over bool
}

func newSlots(most int) *slots { return &slots{most: most, of: map[string]int{}} }

// take gives user a slot, and what gives it back. Busy when they have all.
func (s *slots) take(user string) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, node.Errorf(node.Transient, "cannot open a stream: the node is stopping")
	}
	if s.of[user] >= s.most {
		return nil, node.Errorf(node.Busy, "cannot open another stream: you have %d on this node, which is the most", s.most)
	}
	s.of[user]++
	s.all.Add(1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.of[user]--; s.of[user] == 0 {
			delete(s.of, user)
		}
		s.all.Done()
	}, nil
}

// wait gives out no more, and waits until all are given back.
func (s *slots) wait() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.all.Wait()
}
