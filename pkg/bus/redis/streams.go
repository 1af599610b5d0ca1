package redis

import (
	"context"
	"sync"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

const (
	// subscribeTimeout is how long the confirmation of a stream may take.
	subscribeTimeout = 5 * time.Second
	// pingEvery checks a quiet stream's connection: one that doesn't answer
	// within pingGrace more is taken for dead.
	pingEvery = 10 * time.Second
	pingGrace = 5 * time.Second
)

// subscriptions are all streams of a Bus, on one connection, which lives as
// long as there is a reader. feeds are the readers; sync subscribes the session
// to their channels.
type subscriptions struct {
	bus *Bus

	mu      sync.Mutex
	feeds   transport.Feeds
	session *session
	// latest holds the last events of confirmed channels with a reader: a further reader of
	// this process gets them, since redis keeps no published events.
	latest transport.Latest
	// confirmed is closed when redis has confirmed a channel's subscription.
	confirmed map[string]chan struct{}
	// down is the time since when a confirmed channel is interrupted.
	down   map[string]time.Time
	stop   context.CancelFunc
	ended  sync.WaitGroup
	closed bool

	// writing keeps commands in the order of their decisions.
	writing sync.Mutex
}

// session is one connection's subscriptions.
type session struct {
	link *link
	// asked are the channels subscribed to, pending counts the outstanding answers.
	asked   map[string]bool
	pending map[string]int
}

func newSubscriptions(b *Bus) *subscriptions {
	return &subscriptions{bus: b, feeds: transport.Feeds{}, latest: transport.Latest{}, confirmed: map[string]chan struct{}{}, down: map[string]time.Time{}}
}

func (s *subscriptions) subscribe(ctx context.Context, channel string) (<-chan zbus.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, node.Errorf(node.Transient, "cannot subscribe to %s: %w", channel, err)
	}
	f := transport.NewFeed(&s.bus.count)
	confirmed, err := s.add(channel, f)
	if err != nil {
		return nil, err
	}
	s.sync()
	timer := time.NewTimer(subscribeTimeout)
	defer timer.Stop()
	select {
	case <-confirmed:
	case <-ctx.Done():
		s.remove(channel, f)
		return nil, node.Errorf(node.Transient, "cannot subscribe to %s: %w", channel, ctx.Err())
	case <-timer.C:
		s.remove(channel, f)
		return nil, node.Errorf(node.Transient, "cannot subscribe to %s: no answer in %s", channel, subscribeTimeout)
	}
	f.EndWith(ctx, func() { s.remove(channel, f) })
	return f.Events(), nil
}

func (s *subscriptions) add(channel string, f *transport.Feed) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, transport.ErrClosed()
	}
	if s.feeds.Add(channel, f) {
		s.confirmed[channel] = make(chan struct{})
		// The last reader may have left a moment ago, and redis not know yet.
		if now := s.session; now != nil && now.asked[channel] && now.pending[channel] == 0 {
			close(s.confirmed[channel])
		}
	}
	s.latest.Greet(channel, f)
	if s.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		s.stop = stop
		s.ended.Go(func() { _ = supervise.Keep(ctx, *s.log(), "bus streams", supervise.DefaultBackoff(), s.run) })
	}
	return s.confirmed[channel], nil
}

// remove ends a reader at once; redis is told afterwards.
func (s *subscriptions) remove(channel string, f *transport.Feed) {
	s.mu.Lock()
	f.Close()
	if s.feeds.Remove(channel, f) {
		delete(s.confirmed, channel)
		delete(s.down, channel)
		delete(s.latest, channel)
	}
	if len(s.feeds) == 0 && s.stop != nil {
		s.stop()
		s.stop, s.session = nil, nil
	}
	s.mu.Unlock()
	s.sync()
}

func (s *subscriptions) close() {
	s.mu.Lock()
	s.closed = true
	s.feeds.CloseAll()
	for channel, confirmed := range s.confirmed {
		if !standing(confirmed) {
			close(confirmed)
		}
		delete(s.confirmed, channel)
	}
	if s.stop != nil {
		s.stop()
		s.stop, s.session = nil, nil
	}
	s.mu.Unlock()
	s.ended.Wait()
}

// readers is the number of streams with a reader.
func (s *subscriptions) readers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, of := range s.feeds {
		n += len(of)
	}
	return n
}

// sync subscribes to the readers' channels and to no others.
func (s *subscriptions) sync() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	now := s.session
	if now == nil {
		s.mu.Unlock()
		return
	}
	var more, less redigo.Args
	for channel := range s.feeds {
		if !now.asked[channel] {
			more = more.Add(channel)
			now.asked[channel] = true
			now.pending[channel]++
		}
	}
	for channel := range now.asked {
		if len(s.feeds[channel]) == 0 {
			less = less.Add(channel)
			delete(now.asked, channel)
		}
	}
	s.mu.Unlock()
	if now.send("SUBSCRIBE", more) != nil || now.send("UNSUBSCRIBE", less) != nil {
		now.link.abort()
	}
}

func (n *session) send(command string, args redigo.Args) error {
	if len(args) == 0 && command != "PING" {
		return nil
	}
	if err := n.link.Send(command, args...); err != nil {
		return err
	}
	return n.link.Flush()
}
