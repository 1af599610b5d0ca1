// Package statesocket serves a COSI state on a private Unix socket, and connects to it. Clients may
// read and watch everything that is registered, and give orders; everything else is the node's.
// Whatever a client does costs the process a bounded number of connections, watches and bytes.
package statesocket

import (
	"context"
	"time"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/croft-edge/croft/pkg/privatesocket"
)

// Limits bound what clients may cost.
type Limits struct {
	// Connections is the most at a time; Streams the most calls at a time of one connection.
	Connections int
	Streams     uint32
	// Watches and Calls are the most at a time of all clients: watches, and calls of other kinds.
	Watches, Calls int
	// Request and Answer bound one message in bytes, Orders and OrderSize the orders that exist at a time.
	Request, Answer   int
	Orders, OrderSize int
	// Idle ends a connection without calls. One whose client doesn't answer a ping ends after Ping and PingTimeout.
	Idle, Ping, PingTimeout time.Duration
	// Stuck ends a call whose client doesn't take an event, or doesn't send its request.
	Stuck time.Duration
}

// DefaultLimits are those of a node.
func DefaultLimits() Limits {
	return Limits{
		Connections: 256, Streams: 256, Watches: 128, Calls: 64,
		Request: 256 << 10, Answer: 4 << 20, Orders: 64, OrderSize: 16 << 10,
		Idle: 10 * time.Minute, Ping: 30 * time.Second, PingTimeout: 10 * time.Second, Stuck: 30 * time.Second,
	}
}

// Config describes a server.
type Config struct {
	Path  string
	State state.CoreState
	// Guard makes of the state what clients see; nil is OrdersOnly. Tests give another.
	Guard func(state.CoreState, Limits) state.CoreState
	// Check says what is wrong with an order that a client is about to create; it may correct how it is written. nil
	// allows every one.
	Check func(order resource.Resource) error
	// Limits are DefaultLimits when they are zero.
	Limits Limits
	Log    zerolog.Logger
}

// Server serves a state.
type Server struct {
	listener *privatesocket.Listener
	gate     *gate
	grpc     *grpc.Server
}

// Listen opens the socket, as privatesocket does; Run serves it.
func Listen(ctx context.Context, config Config) (*Server, error) {
	limits := config.Limits
	if limits == (Limits{}) {
		limits = DefaultLimits()
	}
	guard := config.Guard
	if guard == nil {
		guard = OrdersOnly
	}
	listener, err := privatesocket.Listen(ctx, privatesocket.Config{Path: config.Path, Connections: limits.Connections, Log: config.Log})
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener, gate: newGate(limits, config.Log)}
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(limits.Request), grpc.MaxSendMsgSize(limits.Answer), grpc.MaxHeaderListSize(16<<10),
		grpc.MaxConcurrentStreams(limits.Streams), grpc.StaticStreamWindowSize(64<<10), grpc.StaticConnWindowSize(256<<10),
		grpc.ConnectionTimeout(limits.PingTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: limits.Idle, Time: limits.Ping, Timeout: limits.PingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(s.gate.call), grpc.StreamInterceptor(s.gate.stream), grpc.WaitForHandlers(true),
	)
	v1alpha1.RegisterStateServer(s.grpc, newService(guard(checked{config.State, config.Check}, limits), config.Log))
	return s, nil
}

// Run serves until ctx is done, and removes the socket.
func (s *Server) Run(ctx context.Context) error {
	stopped := context.AfterFunc(ctx, s.grpc.Stop)
	defer stopped()
	// Also after a panic, so that the socket can be opened again.
	defer s.gate.handlers.Wait()
	defer s.listener.Close()
	defer s.grpc.Stop()
	err := s.grpc.Serve(s.listener)
	if ctx.Err() != nil {
		return nil
	}
	return errors.Wrap(err, "cannot serve the state socket")
}
