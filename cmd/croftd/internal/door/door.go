package door

import (
	"context"
	"crypto/tls"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/renameio/v2"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/run"
	"github.com/croft-edge/croft/pkg/talk"
	"github.com/croft-edge/croft/pkg/workload"
)

// Workloads are the node's records.
type Workloads interface {
	// Owner is the user who reserved the workload of that ID. NotExist when
	// the node knows none.
	Owner(ctx context.Context, id string) (string, error)
	// Holds reports whether the user has a workload on the node.
	Holds(user string) bool
	// Status is what the node knows of it. NotExist when it knows none.
	Status(ctx context.Context, id string) (talk.Status, error)
	// Delete follows its user's signed wish to end it. Refused when it isn't
	// the user's; Transient when the node couldn't take it in.
	Delete(ctx context.Context, id string, d workload.Deletion) error
}

// Streams are what containers give and take. Their context ends with the
// user's connection.
type Streams interface {
	// Logs calls f with the last lines of a container's output, and goes on
	// with what comes if that is asked for.
	Logs(ctx context.Context, id string, o talk.LogOptions, f func(node.LogLine) error) error
	// Exec runs a command in a container and returns its exit code.
	Exec(ctx context.Context, id string, o talk.ExecOptions, streams talk.ExecIO) (uint32, error)
	// Stats reads a container's use.
	Stats(ctx context.Context, id string) (node.ContainerStats, error)
}

// Config is what a Door needs.
type Config struct {
	NodeID  string
	Version string
	// Sign signs by the node's key.
	Sign talk.Signer
	// Now is the node's clock, and whether it is trusted.
	Now       func() (time.Time, bool)
	Workloads Workloads
	// Streams may be nil: the node has no containers.
	Streams Streams
	// Listen is HOST:PORT; port 0 takes a free one. File, when not empty, gets
	// the address in use.
	Listen string
	File   string
	// Limits bound what users take of the node; a zero one gets its default.
	Limits Limits
	// Pulse is for streams.
	Pulse talk.Pulse
	Log   zerolog.Logger
}

// maxHeader is the most of a request's head, in bytes.
const maxHeader = 16 << 10

// Door is a node's door.
type Door struct {
	Config
	verifier talk.Verifier
	tls      *tls.Config
	listener net.Listener
	tunnel   *inlet
	places   places
	streams  *slots
}

// Listen opens the port and writes the address in
// use to the file; Run answers.
func Listen(ctx context.Context, c Config) (*Door, error) {
	c.Limits = c.Limits.orDefault()
	config, err := talk.ServerConfig(c.NodeID, fewAtATime(c.Sign))
	if err != nil {
		return nil, err
	}
	d := &Door{
		Config: c, verifier: talk.Verifier{Node: c.NodeID, Now: c.Now}, tls: config,
		tunnel: newInlet(), places: c.Limits.places(), streams: newSlots(c.Limits.Streams),
	}
	if d.listener, err = (&net.ListenConfig{KeepAlive: talk.Beat, Control: boundUnread}).Listen(ctx, "tcp", c.Listen); err != nil {
		return nil, errors.Wrapf(err, "cannot listen on door-listen %s", c.Listen)
	}
	if c.File != "" {
		if err := renameio.WriteFile(c.File, []byte(d.Address()+"\n"), 0o644); err != nil {
			_ = d.listener.Close()
			return nil, errors.Wrap(err, "cannot write door-file")
		}
	}
	return d, nil
}

// maxSigning is how many connections may be asking for a signature at a time:
// strangers can ask for them, and others need the node's key too.
const maxSigning = 4

func fewAtATime(by talk.Signer) talk.Signer {
	room := make(chan struct{}, maxSigning)
	return func(ctx context.Context, message []byte) ([]byte, error) {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return nil, node.WithKind(node.Transient, errors.Wrap(ctx.Err(), "cannot show the node's key"))
		}
		defer func() { <-room }()
		return by(ctx, message)
	}
}

// Address is the address in use.
func (d *Door) Address() string { return d.listener.Addr().String() }

// Take answers on a connection that came through the tunnel.
func (d *Door) Take(conn net.Conn) { d.tunnel.put(conn) }

// Run answers until ctx is done: streams end then, too.
func (d *Door) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler: d.handler(), ReadHeaderTimeout: d.Limits.Header, IdleTimeout: d.Limits.Idle, MaxHeaderBytes: maxHeader,
		BaseContext:  func(net.Listener) context.Context { return ctx },
		ConnContext:  func(ctx context.Context, c net.Conn) context.Context { return withVisitor(talk.WithSession(ctx), c) },
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:     stdlog.New(debugWriter{d.Log}, "", 0),
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	through := make(chan error, 1)
	go func() {
		through <- run.Keep(ctx, d.Log, "door", run.DefaultBackoff(), func(context.Context) error {
			return server.Serve(tls.NewListener(d.places.of(d.tunnel), d.tls))
		})
	}()
	err := server.Serve(tls.NewListener(d.places.of(d.listener), d.tls))
	cancel()
	_ = server.Close()
	_ = d.tunnel.Close()
	<-through //nolint:errcheck // that it was stopped is no failure
	d.streams.wait()
	if d.File != "" {
		_ = os.Remove(d.File)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return errors.Wrap(err, "cannot serve the door")
}

// debugWriter takes what net/http logs: clients that break connections.
type debugWriter struct{ log zerolog.Logger }

func (w debugWriter) Write(b []byte) (int, error) {
	w.log.Debug().Str("http", string(b)).Msg("connection")
	return len(b), nil
}
