package api

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/explorer/store"
	"github.com/croft-edge/croft/explorer/tunnel"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// maxDoor is the longest HOST:PORT.
const maxDoor = 261

// tunnels carries users' connections to nodes that have no address.
type tunnels struct {
	// hub is nil where none are carried.
	hub          *tunnel.Hub
	nodes        *store.Nodes
	reservations *store.Reservations
	signatures   *signatures
	connects     *once
	now          func() time.Time
}

// open takes a node's connection over, to carry those of users.
func (t *tunnels) open(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := t.carries(r); err != nil {
		return err
	}
	by, err := t.signatures.by(r, nil, wire.RoleNode)
	if err != nil {
		return err
	}
	if by.Key != id {
		return node.Errorf(node.Refused, "cannot open a tunnel for node %s: the request is signed by %s", limitText(id), by.Key)
	}
	if err := t.hub.Room(); err != nil {
		return err
	}
	// A word of the node's like any other: it counts as seen, and the same
	// request doesn't count twice.
	err = t.nodes.Update(r.Context(), by, id, store.Edit{Seen: t.now(), Apply: func(*wire.Node, bool) error { return nil }})
	if err != nil {
		return t.signatures.replayed(by, err)
	}
	conn, err := takeOver(w)
	if err != nil {
		return err
	}
	t.hub.Keep(id, limit.SourceOfHostPort(r.RemoteAddr), conn)
	return nil
}

// connect makes a user's connection one to the node. Users sign so that who
// uses tunnels can be counted; what they may do is the node's to say.
func (t *tunnels) connect(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := t.carries(r); err != nil {
		return err
	}
	by, err := t.signatures.by(r, nil, wire.RoleUser)
	if err != nil {
		return err
	}
	if !t.connects.first(r.Header.Get(wire.HeaderSignature), t.now()) {
		return node.Errorf(node.Refused, "cannot connect: this request came before")
	}
	owner, err := t.reservations.Owns(r.Context(), by.Key, id, t.now())
	if err != nil {
		return err
	}
	through, err := t.hub.Connect(id, tunnel.Caller{User: by.Key, Source: limit.SourceOfHostPort(r.RemoteAddr), Owner: owner})
	if err != nil {
		return err
	}
	conn, err := takeOver(w)
	if err != nil {
		through.Drop()
		return err
	}
	through.Carry(conn)
	return nil
}

// carries refuses what isn't a request for a tunnel.
func (t *tunnels) carries(r *http.Request) error {
	if t.hub == nil {
		return node.Errorf(node.Refused, "cannot carry a connection: this explorer carries none")
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), wire.TunnelUpgrade) {
		return withStatus(http.StatusUpgradeRequired, invalid("Upgrade", r.Header.Get("Upgrade"), wire.TunnelUpgrade))
	}
	return nil
}

// takeOver switches protocols. What comes after belongs to nobody's deadlines.
func takeOver(w http.ResponseWriter) (net.Conn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, errors.Wrap(err, "cannot take the connection over")
	}
	if out, ok := w.(*recorder); ok {
		out.status = http.StatusSwitchingProtocols
	}
	_, err = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + wire.TunnelUpgrade + "\r\n\r\n"))
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, node.WithKind(node.Transient, errors.Wrap(err, "cannot switch protocols"))
	}
	if buffered.Reader.Buffered() == 0 {
		return conn, nil
	}
	return &taken{Conn: conn, reader: buffered.Reader}, nil
}

// taken is a connection of which something was read already.
type taken struct {
	net.Conn
	reader *bufio.Reader
}

// Read implements net.Conn.
func (t *taken) Read(p []byte) (int, error) { return t.reader.Read(p) }

// CloseWrite says that nothing more is written.
func (t *taken) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return t.Conn.Close()
}

// once remembers signatures for as long as they hold, in bounded memory: two
// generations, of which the older is dropped when it is out of date or the
// newer is full. Who forgets one too early lets a connection be opened twice,
// and nothing more.
type once struct {
	mu       sync.Mutex
	now, old map[string]bool
	began    time.Time
}

func newOnce() *once { return &once{now: map[string]bool{}} }

// first reports whether it is the signature's first use.
func (o *once) first(signature string, at time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now[signature] || o.old[signature] {
		return false
	}
	if len(o.now) >= maxLimited || at.Sub(o.began) > 2*wire.WriteWindow {
		o.now, o.old, o.began = map[string]bool{}, o.now, at
	}
	o.now[signature] = true
	return true
}
