package transport

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/pkg/errors"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/node"
)

// QueueTTL is how long an unread queue is kept after its last frame.
const QueueTTL = 5 * time.Minute

// SendTimeout is how long a reply or an event may take to reach the bus.
const SendTimeout = 5 * time.Second

// Bus carries frames between clients and servers.
type Bus interface {
	// Close ends every stream and every wait of the clients and servers on it.
	Close() error

	// Push appends a frame to the queue key, which lives for ttl after the last
	// push. sent reports, beside an error, whether the frame may have got there.
	Push(ctx context.Context, key string, frame []byte, ttl time.Duration) (sent bool, err error)
	// Pull makes a reader of the queues keys, which must be closed.
	Pull(keys ...string) Puller
	// Serve declares that a server answers these queues.
	Serve(keys ...string)
	// Publish gives a frame to the present subscribers of channel.
	Publish(ctx context.Context, channel string, frame []byte) error
	// IsRead reports whether somebody reads channel; changed is closed when that may be otherwise. A bus that can't know reports true, and
	// changed is nil.
	IsRead(channel string) (read bool, changed <-chan struct{})
	// Silent declares that nobody publishes on channel any more, or for now.
	Silent(channel string)
	// Subscribe returns when the subscription is confirmed; it ends with ctx. A bus that
	// keeps events sends the last one at once.
	Subscribe(ctx context.Context, channel string) (<-chan zbus.Event, error)
	// Counters are the counts of its streams.
	Counters() *Counters
}

// Puller takes frames off queues, one at a time, from one goroutine.
type Puller interface {
	// Next waits for a frame. After ctx's end it may still return one that was
	// already taken, which would be lost otherwise.
	Next(ctx context.Context) ([]byte, error)
	// Close releases the puller's resources.
	Close()
}

// Counters count the events of all streams of a bus.
type Counters struct {
	// Skipped events couldn't be decoded, Dropped ones came faster than they were read.
	Skipped, Dropped atomic.Uint64
	// Resumed counts streams that were cut off and go on.
	Resumed atomic.Uint64
}

// ErrClosed is the error of a bus that is closed.
func ErrClosed() error {
	return node.Errorf(node.Transient, "cannot use the bus: it is closed")
}

// CheckReplyKey accepts the only form of reply keys: a UUID as text. Any other
// key could be somebody's queue.
func CheckReplyKey(key string) error {
	if len(key) != 36 || uuid.Validate(key) != nil {
		return errors.Errorf("cannot reply to %.64q: it isn't a UUID", key)
	}
	return nil
}
