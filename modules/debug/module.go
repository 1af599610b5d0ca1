package debug

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

// MaxStreams is how many streams there may be at once.
const MaxStreams = 32

// Dialer dials addresses that tenants name: a *dial.Dialer.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
	Literal(address string) (netip.AddrPort, error)
}

// Config configures a Module.
type Config struct {
	Dialer Dialer
	// Tap yields the lines of this process; nil for none.
	Tap *Tap
	// Log must not write into Tap.
	Log zerolog.Logger
	// Pause is how long a stream waits before it reconnects, doubling to
	// MaxPause; 1 s and 1 min when 0. Timeout is the deadline for each answer of
	// a redis server; 5 s when 0.
	Pause, MaxPause, Timeout time.Duration
}

// Module is the debug module.
type Module struct {
	cfg Config
	ctx context.Context
	end context.CancelFunc

	mu      sync.Mutex
	streams map[string]*stream
	closed  bool
	// changed is closed when the first stream is added or the last one removed.
	changed chan struct{}
	// now is a copy of streams for readers that mustn't wait for mu.
	now atomic.Pointer[[]*stream]
}

var (
	_ node.Debug    = (*Module)(nil)
	_ node.LogLines = (*Module)(nil)
)

// New makes a module without streams. Close it.
func New(c Config) (*Module, error) {
	if c.Dialer == nil {
		return nil, errors.New("cannot make the debug module: Dialer is missing")
	}
	if c.Pause < 0 || c.MaxPause < 0 || c.Timeout < 0 {
		return nil, errors.Errorf("cannot make the debug module: Pause %s, MaxPause %s and Timeout %s must not be negative", c.Pause, c.MaxPause, c.Timeout)
	}
	c.Pause, c.MaxPause, c.Timeout = cmp.Or(c.Pause, time.Second), cmp.Or(c.MaxPause, time.Minute), cmp.Or(c.Timeout, 5*time.Second)
	m := &Module{cfg: c, streams: map[string]*stream{}, changed: make(chan struct{})}
	m.ctx, m.end = context.WithCancel(context.Background())
	m.now.Store(&[]*stream{})
	return m, nil
}

// Start implements node.Debug.
func (m *Module) Start(spec node.DebugSpec) (node.DebugInfo, error) {
	if spec.ID == "" || spec.Host == "" || spec.Port == 0 || spec.Channel == "" {
		return node.DebugInfo{}, node.Errorf(node.Invalid, "cannot start log stream %q: ID, host, port and channel are all needed", spec.ID)
	}
	if err := (node.Claim{Hash: spec.Hash}).Valid("start log stream " + spec.ID); err != nil {
		return node.DebugInfo{}, err
	}
	m.mu.Lock()
	info, found, err := m.have(spec)
	m.mu.Unlock()
	if found || err != nil {
		return info, err
	}
	// A host name is resolved and checked when the stream connects: Start waits for no name server.
	if _, err := m.cfg.Dialer.Literal(address(spec)); final(err) {
		return node.DebugInfo{}, node.Errorf(node.KindOf(err), "cannot start log stream %s: %w", spec.ID, err)
	}
	return m.add(spec)
}

// final reports whether err means that the address may never be dialled.
func final(err error) bool {
	kind := node.KindOf(err)
	return kind == node.Refused || kind == node.Invalid
}

// have returns the stream with spec's ID, if there is one. The caller holds mu.
func (m *Module) have(spec node.DebugSpec) (node.DebugInfo, bool, error) {
	s, ok := m.streams[spec.ID]
	switch {
	case m.closed:
		return node.DebugInfo{}, false, node.Errorf(node.Transient, "cannot start log stream %s: the debug module is stopping", spec.ID)
	case !ok && len(m.streams) >= MaxStreams:
		return node.DebugInfo{}, false, node.Errorf(node.NoSpace, "cannot start log stream %s: this node has %d already, which is the most", spec.ID, MaxStreams)
	case !ok:
		return node.DebugInfo{}, false, nil
	case s.spec.Hash != spec.Hash:
		return node.DebugInfo{}, true, node.Claim{Hash: spec.Hash}.Check("start log stream "+spec.ID, s.spec.Hash)
	case s.spec != spec:
		return node.DebugInfo{}, true, node.Errorf(node.Exist, "cannot start log stream %s: there is one to channel %s at %s", spec.ID, s.spec.Channel, address(s.spec))
	}
	return s.info(), true, nil
}

func (m *Module) add(spec node.DebugSpec) (node.DebugInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Another call may have made it meanwhile.
	if info, found, err := m.have(spec); found || err != nil {
		return info, err
	}
	s := newStream(m.ctx, spec, m.cfg)
	m.streams[spec.ID] = s
	m.publish()
	go s.run()
	m.cfg.Log.Info().Str("id", spec.ID).Str("type", "debug").Str("step", "start").Str("user", spec.User).Str("address", address(spec)).Str("channel", spec.Channel).Msg("log stream started")
	return s.info(), nil
}

// publish copies streams to now, and turns the tap on or off. The caller holds mu.
func (m *Module) publish() {
	now := make([]*stream, 0, len(m.streams))
	for _, s := range m.streams {
		now = append(now, s)
	}
	was := len(*m.now.Load()) > 0
	m.now.Store(&now)
	wanted := len(now) > 0
	if wanted == was {
		return
	}
	if m.cfg.Tap != nil && wanted {
		m.cfg.Tap.to(m.offer)
	} else if m.cfg.Tap != nil {
		m.cfg.Tap.to(nil)
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// offer gives a line to all streams.
func (m *Module) offer(l *line) {
	for _, s := range *m.now.Load() {
		s.queue.offer(l)
	}
}

// Stop implements node.Debug. Queued lines are not sent any more.
func (m *Module) Stop(id string) error {
	m.mu.Lock()
	s, ok := m.streams[id]
	delete(m.streams, id)
	m.publish()
	m.mu.Unlock()
	if !ok {
		return node.Errorf(node.NotExist, "cannot stop log stream %s: there is none", id)
	}
	s.stop()
	m.cfg.Log.Info().Str("id", id).Str("type", "debug").Str("step", "stop").Msg("log stream stopped")
	return nil
}

// List implements node.Debug.
func (m *Module) List() ([]node.DebugInfo, error) {
	out := []node.DebugInfo{}
	for _, s := range *m.now.Load() {
		out = append(out, s.info())
	}
	slices.SortFunc(out, func(a, b node.DebugInfo) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// Close stops all streams.
func (m *Module) Close() {
	m.mu.Lock()
	streams := m.streams
	m.streams, m.closed = map[string]*stream{}, true
	m.publish()
	m.mu.Unlock()
	m.end()
	for _, s := range streams {
		s.stop()
	}
}

func address(spec node.DebugSpec) string {
	return net.JoinHostPort(spec.Host, strconv.Itoa(int(spec.Port)))
}
