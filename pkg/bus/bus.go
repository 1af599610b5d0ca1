package bus

import (
	"context"
	"fmt"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"
)

// The bounds of what is taken from the wire, looked at before decoding.
const (
	// MaxFrame is the size of a request, reply or event in bytes.
	MaxFrame = 4 << 20
	// MaxDepth is how deep arrays and maps may nest.
	MaxDepth = 32
	// MaxValues is how many values one frame may hold, nested ones included.
	MaxValues = 1 << 18
	// MaxArguments is how many arguments a call may have.
	MaxArguments = 16
)

// Options are what clients, servers and connections share. The zero value works.
type Options struct {
	Log zerolog.Logger
	// Timeout is the deadline of a call whose context has none; 30 s when 0.
	Timeout time.Duration
	// Workers is how many calls a server runs at once; 4 when 0. With more than
	// one, an implementation is called from several goroutines.
	Workers int
	// Grace is how long a server that was told to stop waits for the calls it
	// has begun; 30 s when 0.
	Grace time.Duration
	// OnResume is called, when not nil, after the stream on channel was cut off
	// for down and goes on; events of that time are lost. It must not block.
	OnResume func(channel string, down time.Duration)
}

// Validate reports a value that makes no sense.
func (o Options) Validate() error {
	if o.Timeout < 0 {
		return node.Errorf(node.Invalid, "cannot use bus timeout %s: it must be 0 (30s) or more", o.Timeout)
	}
	if o.Workers < 0 || o.Workers > 1024 {
		return node.Errorf(node.Invalid, "cannot use %d bus workers: allowed are 0 (4) to 1024", o.Workers)
	}
	if o.Grace < 0 {
		return node.Errorf(node.Invalid, "cannot use bus grace %s: it must be 0 (30s) or more", o.Grace)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Workers <= 0 {
		o.Workers = 4
	}
	if o.Grace <= 0 {
		o.Grace = 30 * time.Second
	}
	return o
}

// Bus carries frames between clients and servers: an *InProcess or a *Redis.
type Bus interface {
	// Close ends every stream and every wait of the clients and servers on it.
	Close() error

	// push appends a frame to the queue key, which lives for ttl after the last
	// push. sent tells, beside an error, whether the frame may have got there.
	push(ctx context.Context, key string, frame []byte, ttl time.Duration) (sent bool, err error)
	// pull makes a reader of the queues keys, which must be closed.
	pull(keys ...string) puller
	// serve says that a server answers these queues.
	serve(keys ...string)
	// publish gives a frame to those who subscribe to channel now.
	publish(ctx context.Context, channel string, frame []byte) error
	// silent says that nobody publishes on channel any more.
	silent(channel string)
	// subscribe returns when the subscription stands; it ends with ctx. What was
	// published last comes at once, where the bus has kept it.
	subscribe(ctx context.Context, channel string) (<-chan zbus.Event, error)
	// counters are what its streams count.
	counters() *streamCounters
}

// puller takes frames off queues, one at a time, from one goroutine.
type puller interface {
	// next waits for a frame. After ctx's end it may still return one that was
	// already taken, which would else be lost.
	next(ctx context.Context) ([]byte, error)
	close()
}

type streamCounters struct {
	skipped, dropped, resumed atomic.Uint64
}

// Object is the name of an object on the bus.
func Object(name, version string) zbus.ObjectID {
	return zbus.ObjectID{Name: name, Version: zbus.Version(version)}
}

// statusObject is served by every server, as the bare library's do.
func statusObject() zbus.ObjectID { return Object("zbus", "1.0") }

func queueName(module string, object zbus.ObjectID) string {
	return module + "." + object.String()
}

func channelName(module string, object zbus.ObjectID, event string) string {
	return queueName(module, object) + "." + event
}

// moduleForm is what modules, objects and versions may be called: their names
// become keys, and the dot between them must stay the only separator.
var moduleForm = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,63}$`)

func checkModule(name string) error {
	if !moduleForm.MatchString(name) {
		return node.Errorf(node.Invalid, "cannot use %q as a module's name: allowed are letters, digits, - and _", name)
	}
	return nil
}

// pause waits for d, or for ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot wait %s: %w", d, ctx.Err())
	}
}
