package loop

import (
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/resp"
)

// Config is what a loop works with. All of it but Handler may be left out.
type Config struct {
	Handler Handler
	// MaxConnections is how many clients there are at most, those of admins' listeners
	// apart: 4096 when 0, and never more than there are file descriptors for. See
	// Connections for who has to go when there are more.
	MaxConnections int
	// MaxSource is how many of them that aren't known may be of one source, 256 when
	// 0; MaxGroup is how many may be in one group, 512 when 0.
	MaxSource, MaxGroup int
	// MaxArgument is how many bytes an argument has at most, 8 MiB when 0.
	MaxArgument int
	// MaxArguments is how many a request has at most, 1024 when 0.
	MaxArguments int
	// MaxRequest is how many bytes all of a request has at most, twice
	// MaxArgument when 0.
	MaxRequest int64
	// MaxBuffers is how many bytes the buffers of all connections have at most,
	// 256 MiB when 0. Whoever has the most is closed when there are more. A source
	// has a quarter at most, those that aren't known have half.
	MaxBuffers int64
	// Idle is how long a connection may neither send nor take anything, for ever
	// when 0.
	Idle time.Duration
	// Silence is the same for strangers, 30 s when 0. Stall is how long a client may
	// take to send a request, and a second more for each 4 KiB of it, and how long
	// it may take nothing of a reply: a minute when 0.
	Silence, Stall time.Duration
	Log            zerolog.Logger
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

const (
	defaultArgument  = 8 << 20
	defaultArguments = 1024
	defaultSilence   = 30 * time.Second
	defaultStall     = time.Minute
	// slowest is how many bytes a second of a large request have to come.
	slowest = 4 << 10

	// readSize is how much is read from a connection at once, and so the least that
	// a limit of all buffers can be.
	readSize = 256 << 10
)

// fill puts the defaults in.
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

// strangers are the limits of who is a stranger.
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
