package userapi

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
)

// Workloads are the node's records.
type Workloads interface {
	// Owner is the user who reserved the workload of that ID. NotExist when
	// the node knows none.
	Owner(ctx context.Context, id string) (string, error)
	// Holds reports whether the user has a workload on the node.
	Holds(user string) bool
	// Status is the node's record of the workload; NotExist when there is none.
	Status(ctx context.Context, id string) (nodeapi.Status, error)
	// Events are what has happened to the workload of that ID of that user, the oldest first.
	Events(ctx context.Context, id, user string) ([]nodeapi.Event, error)
	// Delete carries out its user's signed deletion. Refused when the workload isn't the user's;
	// Transient when the node couldn't record it.
	Delete(ctx context.Context, id string, d workload.Deletion) error
}

// Streams serve the logs, commands and statistics of containers. Their context ends with the user's
// connection.
type Streams interface {
	// Logs calls f with the last lines of a container's output, then with new lines if o.Follow is set.
	Logs(ctx context.Context, id string, o nodeapi.LogOptions, f func(node.LogLine) error) error
	// Exec runs a command in a container and returns its exit code.
	Exec(ctx context.Context, id string, o nodeapi.ExecOptions, streams nodeapi.ExecIO) (uint32, error)
	// Stats reads a container's resource use.
	Stats(ctx context.Context, id string) (node.ContainerStats, error)
}

// Config configures a Door.
type Config struct {
	NodeID  string
	Version string
	// Sign signs with the node's key.
	Sign nodeapi.Signer
	// Now is the node's clock, and whether it is trusted.
	Now       func() (time.Time, bool)
	Workloads Workloads
	// Streams may be nil: a node without containers.
	Streams Streams
	// Listen is HOST:PORT; port 0 takes a free one. File, when not empty, gets
	// the address in use.
	Listen string
	File   string
	// Command starts the door's process, which must call front.Serve; empty is this program with the
	// argument "door".
	Command []string
	// Confine limits the process before it receives any data; may be nil.
	Confine func(pid int)
	// Limits bound the users' share of the node; zero members get their defaults.
	Limits Limits
	// Pulse is the heartbeat of streams.
	Pulse nodeapi.Pulse
	Log   zerolog.Logger
}

// Door is the agent's side of a node's door.
type Door struct {
	Config
	verifier nodeapi.Verifier
	listener *net.TCPListener
	tunnel   chan net.Conn
	ended    chan struct{}
	streams  *slots
	links    *limit.Shares
	tunnels  *limit.Shares
	bindings *bindings
	handler  http.Handler
	restarts atomic.Uint64
	// lesser is whether the log already says that the process has no user namespace.
	lesser atomic.Bool
}

// Listen opens the port and writes its address to the file; Run answers requests.
func Listen(ctx context.Context, c Config) (*Door, error) {
	c.Limits = c.Limits.orDefault()
	if len(c.Command) == 0 {
		c.Command = []string{"/proc/self/exe", "door"}
	}
	if _, err := sign.VerifyingKey(c.NodeID); err != nil {
		return nil, node.WithKind(node.Invalid, err)
	}
	d := &Door{
		Config: c, verifier: nodeapi.Verifier{Node: c.NodeID, Now: c.Now}, tunnel: make(chan net.Conn), ended: make(chan struct{}),
		streams: newSlots(c.Limits.Streams), links: linkPlaces.Shares(), tunnels: pipePlaces.Shares(), bindings: newBindings(c.Now),
	}
	d.handler = d.routes()
	listener, err := (&net.ListenConfig{KeepAlive: nodeapi.Beat, Control: boundUnread}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot listen on door-listen %s", c.Listen)
	}
	d.listener = listener.(*net.TCPListener)
	if c.File != "" {
		if err := atomicfile.WriteFile(c.File, []byte(d.Address()+"\n"), 0o644); err != nil {
			_ = d.listener.Close()
			return nil, errors.Wrap(err, "cannot write door-file")
		}
	}
	return d, nil
}

// Address is the address of the listening socket.
func (d *Door) Address() string { return d.listener.Addr().String() }

// Restarts counts the restarts of the door's process.
func (d *Door) Restarts() uint64 { return d.restarts.Load() }

// Take serves a connection from the tunnel. It waits up to linger for the door's process.
func (d *Door) Take(conn net.Conn) {
	late := time.NewTimer(linger)
	defer late.Stop()
	select {
	case d.tunnel <- conn:
	case <-d.ended:
		_ = conn.Close()
	case <-late.C:
		_ = conn.Close()
	}
}

// again is the backoff before a restart of the door's process. Meanwhile clients wait in the backlog of
// the listening socket.
func again() backoff.Backoff {
	return backoff.Backoff{Base: 100 * time.Millisecond, Max: time.Second}
}

// Run answers requests until ctx is done, which also ends streams. It restarts the door's process when
// that ends.
func (d *Door) Run(ctx context.Context) error {
	first := true
	// A client that can crash it repeatedly mustn't fill the log.
	log := d.Log.Sample(&zerolog.BurstSampler{Burst: 5, Period: time.Minute})
	err := supervise.Keep(ctx, log, "door process", again(), func(ctx context.Context) error {
		if !first {
			d.restarts.Add(1)
		}
		first = false
		err := d.process(ctx)
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
	close(d.ended)
	_ = d.listener.Close()
	d.streams.wait()
	if d.File != "" {
		_ = os.Remove(d.File)
	}
	return err
}
