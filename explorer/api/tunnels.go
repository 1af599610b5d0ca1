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
	// hub is nil where tunnels are off.
	hub          *tunnel.Hub
	nodes        *store.Nodes
	reservations *store.Reservations
	signatures   *signatures
	connects     *once
	now          func() time.Time
}

// open takes over a node's connection, to carry users' connections.
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
	// Opening a tunnel is a signed write of the node like any other: it marks the node as seen, and
	// a replay is refused.
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

// connect joins a user's connection to the node. Users sign so that their use of tunnels can be
// counted; the node decides what they may do.
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

// carries refuses requests that don't ask for a tunnel, and all where tunnels are off.
func (t *tunnels) carries(r *http.Request) error {
	if t.hub == nil {
		return node.Errorf(node.Refused, "cannot carry a connection: this explorer carries none")
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), wire.TunnelUpgrade) {
		return withStatus(http.StatusUpgradeRequired, invalid("Upgrade", r.Header.Get("Upgrade"), wire.TunnelUpgrade))
	}
	return nil
}

// takeOver switches protocols and clears the deadlines.
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

// taken is a connection with buffered bytes that were read from it already.
type taken struct {
	net.Conn
	reader *bufio.Reader
}

// Read implements net.Conn.
func (t *taken) Read(p []byte) (int, error) { return t.reader.Read(p) }

// CloseWrite closes the writing side.
func (t *taken) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return t.Conn.Close()
}

// once remembers signatures for as long as they are valid, in bounded memory: two generations, the
// older of which is dropped when it is out of date or the newer is full. Forgetting one too early
// only lets a connection be opened twice.
type once struct {
	mu       sync.Mutex
	now, old map[string]bool
	began    time.Time
}

func newOnce() *once { return &once{now: map[string]bool{}} }

// first reports whether this is the signature's first use.
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
