package handover

import (
	"context"
	"net"
	"os"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/zdb/socket"
)

const (
	// maxClients is the maximum number of connections. The node needs one, and one more
	// to look.
	maxClients = 16
	// acceptAgain is the pause after accepting failed.
	acceptAgain = 100 * time.Millisecond
	mode        = 0o600
)

// ServerConfig is the settings of a Server.
type ServerConfig struct {
	// Path is where the node connects.
	Path string
	// Take accepts connections on a listening socket from now on. It owns the file; after
	// an error the server closes that too.
	Take func(socket *os.File) error
	// Listeners returns duplicates of the listening sockets that are in use. The
	// server closes them.
	Listeners func() ([]*os.File, error)
	Log       zerolog.Logger
}

// Validate names the field that is wrong.
func (c ServerConfig) Validate() error {
	switch {
	case c.Path == "":
		return errors.New("cannot serve the handover: Path is empty, must be that of a socket")
	case c.Take == nil || c.Listeners == nil:
		return errors.New("cannot serve the handover: Take and Listeners are both needed")
	}
	return nil
}

// Server is the zdb's end. Listen makes one.
type Server struct {
	cfg      ServerConfig
	listener *socket.Listener
}

// Listen makes the socket, so that nodes can connect. They are served in Run.
func Listen(c ServerConfig) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	l, err := socket.Listen(c.Path, mode)
	if err != nil {
		return nil, err
	}
	return &Server{cfg: c, listener: l}, nil
}

// Run serves until ctx is done, then closes all connections and removes the
// socket. It is called once.
func (s *Server) Run(ctx context.Context) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots := make(chan struct{}, maxClients)
	stop := context.AfterFunc(ctx, func() { _ = s.listener.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		conn, err := s.listener.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return s.listener.Close()
		case errors.Is(err, net.ErrClosed):
			return errors.Wrap(err, "cannot serve the handover")
		case err != nil:
			s.cfg.Log.Warn().Str("step", "handover").Err(err).Msg("cannot accept a connection")
			select {
			case <-ctx.Done():
			case <-time.After(acceptAgain):
			}
			continue
		}
		select {
		case slots <- struct{}{}:
			clients.Go(func() {
				defer func() { <-slots }()
				s.serve(ctx, conn)
			})
		default:
			_ = send(conn, time.Now().Add(time.Second), encode(greeting{Version: version, Error: "cannot serve another connection: there are too many"}), nil)
			_ = conn.Close()
		}
	}
}

// serve speaks with one node until that has gone.
func (s *Server) serve(ctx context.Context, conn *net.UnixConn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := s.greet(conn); err != nil {
		s.cfg.Log.Warn().Str("step", "handover").Err(err).Msg("cannot greet a node")
		return
	}
	for {
		in, err := receive(conn, time.Time{}, 1)
		if err != nil {
			s.cfg.Log.Debug().Str("step", "handover").Err(err).Msg("a node has closed its connection")
			return
		}
		answer := reply{OK: true}
		if err := s.take(in); err != nil {
			s.cfg.Log.Warn().Str("step", "handover").Err(err).Msg("cannot take a listener")
			answer = reply{Error: shown(err.Error())}
		}
		if err := send(conn, time.Now().Add(patience), encode(answer), nil); err != nil {
			return
		}
	}
}

func (s *Server) greet(conn *net.UnixConn) error {
	files, err := s.cfg.Listeners()
	defer func() { line{files: files}.close() }()
	if err != nil {
		return send(conn, time.Now().Add(patience), encode(greeting{Version: version, Error: shown(err.Error())}), nil)
	}
	// One that was shut down is no listener any more.
	files = whichListen(files)
	if len(files) > MaxListeners {
		return errors.Errorf("cannot greet: there are %d listeners, at most %d can be told", len(files), MaxListeners)
	}
	return send(conn, time.Now().Add(patience), encode(greeting{Version: version, Listeners: len(files)}), files)
}

// take hands the descriptor of a request on.
func (s *Server) take(in line) error {
	req, err := decode[request](in.text)
	switch {
	case err != nil:
		err = errors.Wrap(err, "cannot read a request")
	case req.Take != 1 || len(in.files) != 1:
		err = errors.Errorf("cannot take listeners: take is %d with %d descriptors, must be 1 with 1", req.Take, len(in.files))
	default:
		err = errors.Wrap(listening(in.files[0]), "cannot take a listener")
	}
	if err == nil {
		err = s.cfg.Take(in.files[0])
	}
	if err != nil {
		in.close()
	}
	return err
}
