package bus

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// replies reads the queue of the replies to one client's calls, and hands each to its call.
type replies struct {
	bus Bus
	log zerolog.Logger
	// key is the queue's key.
	key string

	mu sync.Mutex
	// waiting are the calls without a reply, by the ID of their request.
	waiting map[string]chan *reply
	stop    context.CancelFunc
	done    chan struct{}
	closed  bool

	stray, unreadable atomic.Uint64
}

func newReplies(b Bus, log zerolog.Logger) *replies {
	return &replies{bus: b, log: log, key: uuid.NewString(), waiting: map[string]chan *reply{}}
}

// expect registers a call before it is sent, and starts reading replies at the
// first one.
func (r *replies) expect(id string) (<-chan *reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, node.Errorf(node.Transient, "cannot call: the client is closed")
	}
	if r.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		r.stop, r.done = stop, make(chan struct{})
		go func() {
			defer close(r.done)
			defer r.endCalls()
			_ = supervise.Keep(ctx, r.log, "bus replies", supervise.DefaultBackoff(), r.read)
		}()
	}
	answer := make(chan *reply, 1)
	r.waiting[id] = answer
	return answer, nil
}

func (r *replies) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, id)
}

// read hands each reply to the call with its ID, until ctx ends.
func (r *replies) read(ctx context.Context) error {
	p := r.bus.Pull(r.key)
	defer p.Close()
	retry := transport.NewBackoff()
	for ctx.Err() == nil {
		frame, err := p.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			if retry.First() {
				r.log.Warn().Str("step", "bus").Err(err).Msg("cannot read replies, trying again")
			}
			if transport.Pause(ctx, retry.Next()) != nil {
				break
			}
			continue
		}
		retry.Reset()
		r.deliver(frame)
	}
	return ctx.Err()
}

func (r *replies) deliver(frame []byte) {
	rep := &reply{}
	if err := decode(frame, rep); err != nil {
		r.unreadable.Add(1)
		r.log.Warn().Str("step", "bus").Err(err).Msg("cannot read a reply")
		id := replyID(frame)
		if id == "" {
			return
		}
		text := "cannot read the reply: " + err.Error()
		rep = &reply{ID: id, Error: &text, Kind: string(node.Unknown)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	answer, ok := r.waiting[rep.ID]
	if !ok {
		r.stray.Add(1)
		return
	}
	delete(r.waiting, rep.ID)
	answer <- rep
}

// replyID is the ID of a reply whose rest can't be decoded, so that its call
// needn't wait for its deadline.
func replyID(frame []byte) string {
	const start = "\xa2ID\xd9\x24"
	if len(frame) < 1+len(start)+36 || string(frame[1:1+len(start)]) != start {
		return ""
	}
	id := string(frame[1+len(start) : 1+len(start)+36])
	if transport.CheckReplyKey(id) != nil {
		return ""
	}
	return id
}

// close ends every call and the reading; it reports whether it is the first call of close.
func (r *replies) close() bool {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return false
	}
	r.closed = true
	stop, done := r.stop, r.done
	r.mu.Unlock()
	if stop != nil {
		stop()
		<-done
	}
	return true
}

// endCalls fails every call that still waits.
func (r *replies) endCalls() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, answer := range r.waiting {
		close(answer)
		delete(r.waiting, id)
	}
}

// ended reports whether err only means that a context has ended.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
