package loop

import (
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/resp"
)

// Config is the settings of a loop. Only Handler is required.
type Config struct {
	Handler Handler
	// MaxConnections is the maximum number of clients, without those of admins'
	// listeners: 4096 when 0, and never more than there are file descriptors for. See
	// Connections for which one is closed when there are more.
	MaxConnections int
	// MaxSource is the maximum of unknown connections of one source, 256 when 0;
	// MaxGroup that of connections in one group, 512 when 0.
	MaxSource, MaxGroup int
	// MaxArgument is the maximum size of an argument in bytes, 8 MiB when 0.
	MaxArgument int
	// MaxArguments is the maximum number of a request's arguments, 1024 when 0.
	MaxArguments int
	// MaxRequest is the maximum size of a request in bytes, twice MaxArgument when 0.
	MaxRequest int64
	// MaxBuffers is the maximum size of all connections' buffers in bytes, 256 MiB when
	// 0. When they are larger, the connection with the most is closed. A source may
	// have a quarter, unknown connections together half.
	MaxBuffers int64
	// Idle is how long a connection may neither send nor receive, for ever when 0.
	Idle time.Duration
	// Silence is the same for strangers, 30 s when 0. Stall is how long a client may
	// take to send a request, plus a second for each 4 KiB of it, and how long it may
	// receive nothing of a reply: a minute when 0.
	Silence, Stall time.Duration
	Log            zerolog.Logger
}

// Handler carries out requests. All its methods are called on the loop's thread.
type Handler interface {
	// Open is called for each new connection.
	Open(c *Conn)
	// Command runs a request and appends the reply to c.Out. args has at least one
	// element, and is valid until Command returns.
	Command(c *Conn, args [][]byte)
	// Closed is called when a connection has ended; nothing more is sent to it.
	Closed(c *Conn)
	// Flush is called before the replies of a round are sent. After an error the
	// connections that called AwaitFlush in this round are closed without a reply.
	Flush() error
	// Tick is called after the delay that the last Tick returned, and in each round
	// without work. It returns the delay of the next Tick: 0 when there is work left.
	Tick(now time.Time) time.Duration
}

const (
	defaultArgument  = 8 << 20
	defaultArguments = 1024
	defaultSilence   = 30 * time.Second
	defaultStall     = time.Minute
	// slowest is the minimum rate of a large request, in bytes per second.
	slowest = 4 << 10

	// readSize is how much is read from a connection at once, and so the minimum of
	// MaxBuffers.
	readSize = 256 << 10
)

// fill checks the settings and puts the defaults in.
func (c *Config) fill() error {
	if c.Handler == nil {
		return errors.New("cannot make a loop: Handler is nil")
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"MaxConnections", int64(c.MaxConnections)}, {"MaxArgument", int64(c.MaxArgument)}, {"MaxArguments", int64(c.MaxArguments)},
		{"MaxRequest", c.MaxRequest}, {"MaxBuffers", c.MaxBuffers}, {"Idle", int64(c.Idle)},
		{"MaxSource", int64(c.MaxSource)}, {"MaxGroup", int64(c.MaxGroup)}, {"Silence", int64(c.Silence)}, {"Stall", int64(c.Stall)},
	} {
		if n.value < 0 {
			return errors.Errorf("cannot make a loop: %s is %d: must be 0 (the default) or more", n.name, n.value)
		}
	}
	c.MaxConnections = orDefault(c.MaxConnections, int(Connections.Total))
	c.MaxSource = orDefault(c.MaxSource, int(Connections.Each))
	c.MaxGroup = orDefault(c.MaxGroup, int(GroupConnections.Each))
	c.Silence = orDefault(c.Silence, defaultSilence)
	c.Stall = orDefault(c.Stall, defaultStall)
	c.MaxArgument = orDefault(c.MaxArgument, defaultArgument)
	c.MaxArguments = orDefault(c.MaxArguments, defaultArguments)
	c.MaxRequest = orDefault(c.MaxRequest, 2*int64(c.MaxArgument))
	c.MaxBuffers = orDefault(c.MaxBuffers, Buffers.Total)
	if c.MaxBuffers < readSize {
		return errors.Errorf("cannot make a loop: MaxBuffers is %d: must be at least %d bytes", c.MaxBuffers, readSize)
	}
	return nil
}

func (c *Config) limits() resp.Limits {
	return resp.Limits{Argument: c.MaxArgument, Arguments: c.MaxArguments, Request: c.MaxRequest}
}

// strangers are the limits of strangers' requests.
func (c *Config) strangers() resp.Limits {
	l := c.limits()
	l.Argument = min(l.Argument, int(StrangerRequest.Each))
	l.Request = min(l.Request, StrangerRequest.Each)
	return l
}

func orDefault[T int | int64 | time.Duration](value, otherwise T) T {
	if value == 0 {
		return otherwise
	}
	return value
}
