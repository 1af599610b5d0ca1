package loop

import (
	"context"
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
)

// Config is what a loop works with. All of it but Handler may be left out.
type Config struct {
	Handler Handler
	// MaxConnections is how many clients there are at most, 4096 when 0. One more
	// is told so and closed.
	MaxConnections int
	// MaxArgument is how many bytes an argument has at most, 8 MiB when 0.
	MaxArgument int
	// MaxArguments is how many a request has at most, 1024 when 0.
	MaxArguments int
	// MaxRequest is how many bytes all of a request has at most, twice
	// MaxArgument when 0.
	MaxRequest int64
	// MaxBuffers is how many bytes the buffers of all connections have at most,
	// 256 MiB when 0. Whoever has the most is closed when there are more.
	MaxBuffers int64
	// Idle is how long a connection may say nothing, for ever when 0.
	Idle time.Duration
	Log  zerolog.Logger
}

// Handler is what a loop serves. All of it is called on the loop's thread.
type Handler interface {
	// Open says that a connection has come.
	Open(c *Conn)
	// Command runs a request and appends the reply to c.Out. args has at least one
	// element, and is valid until Command returns.
	Command(c *Conn, args [][]byte)
	// Closed says that a connection is gone; nothing more is sent to it.
	Closed(c *Conn)
	// Flush is called before the replies of a round are sent. After an error the
	// connections that said AwaitFlush in this round are closed without a reply.
	Flush() error
	// Tick is called when the time has come that the last one asked for, and in
	// each round that has nothing to do. It returns in how long it wants to be
	// called again: 0 when there is work left.
	Tick(now time.Time) time.Duration
}

// Conn is a client's connection. It belongs to the loop's thread.
type Conn struct {
	// Out is what is to be sent. Handlers append to it, in Command, or before they
	// call Release.
	Out []byte
	// Admin says that it came over an admin's listener.
	Admin bool
	// State is the handler's.
	State any
}

// Now is when this round began.
func (c *Conn) Now() time.Time { return time.Now() }

// Room is how many bytes may still be appended to Out.
func (c *Conn) Room() int64 { return 0 }

// AwaitFlush says that what this round replies to c holds only if Flush succeeds.
func (c *Conn) AwaitFlush() {}

// CloseAfter closes the connection once Out is sent; no further request runs.
func (c *Conn) CloseAfter() {}

// Hold keeps further requests of this connection from running, until Release.
// When the client goes meanwhile, the connection is closed.
func (c *Conn) Hold() {}

// Release lets requests run again and sends what was appended to Out. It does
// nothing when c isn't held.
func (c *Conn) Release() {}

// Loop serves connections.
type Loop struct{}

// New makes a loop, which has no listener yet.
func New(Config) (*Loop, error) { return nil, errors.New("cannot make a loop: it is being built") }

// Run serves until ctx is done, then closes all connections and listeners.
func (l *Loop) Run(ctx context.Context) error { return ctx.Err() }

// Listen takes a listening socket over, tcp or unix; the caller's is closed, also
// on an error. Connections that come in there are Admin when admin is set. It may
// be called from any goroutine, before Run too.
func (l *Loop) Listen(socket *os.File, admin bool) error { return nil }

// Listeners returns duplicates of the sockets that were taken over as admin ones,
// or the others. It may be called from any goroutine.
func (l *Loop) Listeners(admin bool) ([]*os.File, error) { return nil, nil }

// Post has f run on the loop's thread, soon. It may be called from any goroutine,
// and says false, without running f ever, once the loop has ended.
func (l *Loop) Post(f func()) bool { return false }
