package userapi

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/supervise"
)

// caller is one TLS connection to the door, as the door's process reports it.
type caller struct {
	door    *Door
	conn    *net.UnixConn
	binding binding
	remote  string
	stayed  chan byte

	mu sync.Mutex
	// open is the request in progress, nil for none.
	open *answer
	// known is whether the connection has an owner's place.
	known bool
}

// callerKey is the context key of a request's caller.
type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

// said is how long the process may take to complete a frame, or to answer.
const said = 10 * time.Second

// attend serves the requests on the link, until it ends or breaks the rules.
func (c *caller) attend(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithValue(nodeapi.WithSession(ctx), callerKey{}, c))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	defer stop()
	if err := c.greet(); err != nil {
		c.door.Log.Debug().Err(err).Msg("a link to the door's process ends")
		return
	}
	defer c.door.bindings.release(c)
	var handling sync.WaitGroup
	defer handling.Wait()
	defer cancel()
	for {
		kind, payload, err := c.read()
		if err != nil {
			if a := c.current(); a != nil && a.parkReader() {
				handling.Wait() // the handler has the connection now
			}
			return
		}
		if kind == wire.Stayed {
			select {
			case c.stayed <- payload[0]:
				continue
			default:
				return // unsolicited
			}
		}
		r, err := c.request(ctx, kind, payload)
		if err != nil || c.current() != nil {
			c.door.Log.Debug().Err(err).Msg("the door's process breaks the rules of a link")
			return
		}
		handling.Wait()
		a := newAnswer(ctx, c)
		c.begin(a)
		handling.Go(func() { supervise.Do(c.door.Log, "door", func() { a.serve(r) }) })
	}
}

// greet reads the frame that identifies the connection.
func (c *caller) greet() error {
	if err := c.conn.SetReadDeadline(time.Now().Add(said)); err != nil {
		return err
	}
	kind, length, err := wire.ReadHead(c.conn, true)
	if err != nil || kind != wire.Connection {
		return errors.Errorf("cannot take a link: it begins with a frame of kind %d, %v", kind, err)
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(c.conn, payload); err != nil {
		return err
	}
	c.binding, c.remote = binding(payload), string(payload[wire.BindingSize:])
	if _, err := netip.ParseAddrPort(c.remote); err != nil && c.remote != "tunnel" {
		return errors.New("cannot take a link: it is from no address")
	}
	return c.conn.SetReadDeadline(time.Time{})
}

// read reads a frame; its memory grows with the bytes received.
func (c *caller) read() (wire.Kind, []byte, error) {
	kind, length, err := wire.ReadHead(c.conn, true)
	if err != nil {
		return kind, nil, err
	}
	if err := c.conn.SetReadDeadline(time.Now().Add(said)); err != nil {
		return kind, nil, err
	}
	var payload bytes.Buffer
	if _, err := io.CopyN(&payload, c.conn, int64(length)); err != nil {
		return kind, nil, err
	}
	return kind, payload.Bytes(), c.conn.SetReadDeadline(time.Time{})
}

// request turns a frame into the handler's request.
func (c *caller) request(ctx context.Context, kind wire.Kind, payload []byte) (*http.Request, error) {
	if kind != wire.Request {
		return nil, errors.Errorf("a frame of kind %d", kind)
	}
	a, err := wire.Decode(payload)
	if err != nil {
		return nil, err
	}
	at, err := url.ParseRequestURI(a.Target)
	if err != nil {
		return nil, errors.Wrap(err, "an invalid target")
	}
	r := &http.Request{
		Method: a.Method, URL: at, RequestURI: a.Target, Header: a.Header, RemoteAddr: c.remote, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(a.Body)), ContentLength: int64(len(a.Body)),
	}
	switch a.State {
	case wire.BodyTooLarge:
		r.Body = io.NopCloser(failing{&http.MaxBytesError{Limit: maxBody}})
	case wire.BodyUnread:
		r.Body = io.NopCloser(failing{errors.New("it is incomplete")})
	}
	return r.WithContext(ctx), nil
}

// failing is the body of a request that didn't arrive whole.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func (c *caller) current() *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

func (c *caller) begin(a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = a
}

// stay has the door's process give the connection one of the user's own places. Its answer affects only
// its own places.
func (d *Door) stay(ctx context.Context, user string) error {
	c := callerOf(ctx)
	c.mu.Lock()
	known, a := c.known, c.open
	c.mu.Unlock()
	if known || a == nil {
		return nil
	}
	if err := a.send(wire.Stay, []byte(user)); err != nil {
		return node.WithKind(node.Transient, errors.Wrap(err, "cannot serve another connection"))
	}
	timer := time.NewTimer(said)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return node.WithKind(node.Transient, errors.Wrap(ctx.Err(), "cannot serve another connection"))
	case <-timer.C:
		return node.Errorf(node.Busy, "cannot serve another connection: the door doesn't answer")
	case got := <-c.stayed:
		return c.stays(got)
	}
}

func (c *caller) stays(answer byte) error {
	l := c.door.Limits
	var full error
	switch answer {
	case wire.StayOK:
		c.mu.Lock()
		c.known = true
		c.mu.Unlock()
		return nil
	case wire.StayUserHasAll:
		full = &limit.Full{Limit: l.Owners}
	case wire.StayAllTaken:
		full = &limit.Full{Limit: l.Owners, All: true}
	case wire.StaySourceHasAll:
		full = &limit.Full{Limit: l.OwnerSources}
	default:
		full = errors.New("the door doesn't say why")
	}
	return node.WithKind(node.Busy, errors.Wrap(full, "cannot serve another connection"))
}
