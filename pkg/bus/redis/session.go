package redis

import (
	"context"
	"sync"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/supervise"
)

// run keeps a session until ctx ends.
func (s *subscriptions) run(ctx context.Context) error {
	retry := transport.NewBackoff()
	for {
		stood, err := s.keep(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if stood {
			retry.Reset()
		}
		if retry.First() {
			s.log().Warn().Str("step", "bus").Err(err).Msg("the streams were cut off, trying again")
		}
		if transport.Pause(ctx, retry.Next()) != nil {
			return ctx.Err()
		}
	}
}

func (s *subscriptions) log() *zerolog.Logger { return &s.bus.options.Log }

// keep makes one connection and delivers its events; stood reports whether a
// subscription was confirmed on it.
func (s *subscriptions) keep(ctx context.Context) (stood bool, err error) {
	l, err := s.bus.links.dial(ctx)
	if err != nil {
		return false, err
	}
	defer l.drop()
	stop := context.AfterFunc(ctx, l.abort)
	defer stop()
	now := &session{link: l, asked: map[string]bool{}, pending: map[string]int{}}
	if !s.enter(ctx, now) {
		return false, ctx.Err()
	}
	defer s.leave(now)
	s.sync()

	var pinging sync.WaitGroup
	defer pinging.Wait()
	pings, cancel := context.WithCancel(ctx)
	defer cancel()
	pinging.Go(func() {
		if !supervise.Do(*s.log(), "bus ping", func() { s.ping(pings, now) }) {
			now.link.abort()
		}
	})

	for {
		l.net.arm()
		switch m := (redigo.PubSubConn{Conn: l}).ReceiveWithTimeout(pingEvery + pingGrace).(type) {
		case error:
			return stood, m
		case redigo.Message:
			s.mu.Lock()
			if s.feeds.Deliver(m.Channel, m.Data, &s.bus.count) && len(s.feeds[m.Channel]) > 0 {
				s.latest[m.Channel] = m.Data
			}
			s.mu.Unlock()
		case redigo.Subscription:
			if m.Kind == "subscribe" {
				stood = true
				s.confirm(now, m.Channel)
			}
		}
	}
}

// enter makes now the session, unless ctx has ended: another may have taken its place.
func (s *subscriptions) enter(ctx context.Context, now *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	s.session = now
	return true
}

// leave records since when the channels are down.
func (s *subscriptions) leave(now *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != now {
		return
	}
	s.session, s.latest = nil, transport.Latest{}
	for channel := range s.feeds {
		if _, already := s.down[channel]; !already && now.asked[channel] && now.pending[channel] == 0 {
			s.down[channel] = time.Now()
		}
		// A reader that subscribes meanwhile waits for the next session.
		if standing(s.confirmed[channel]) {
			s.confirmed[channel] = make(chan struct{})
		}
	}
}

func standing(confirmed chan struct{}) bool {
	select {
	case <-confirmed:
		return true
	default:
		return false
	}
}

// confirm lets the readers of a channel go ahead.
func (s *subscriptions) confirm(now *session, channel string) {
	s.mu.Lock()
	now.pending[channel]--
	if s.session != now || now.pending[channel] > 0 || len(s.feeds[channel]) == 0 {
		s.mu.Unlock()
		return
	}
	if !standing(s.confirmed[channel]) {
		close(s.confirmed[channel])
	}
	since, was := s.down[channel]
	delete(s.down, channel)
	s.mu.Unlock()
	if !was {
		return
	}
	down := time.Since(since)
	s.bus.count.Resumed.Add(1)
	s.log().Warn().Str("step", "bus").Str("stream", channel).Dur("down", down).Msg("a stream goes on, events are lost")
	if s.bus.options.OnResume != nil {
		s.bus.options.OnResume(channel, down)
	}
}

func (s *subscriptions) ping(ctx context.Context, now *session) {
	for transport.Pause(ctx, pingEvery) == nil {
		s.writing.Lock()
		err := now.send("PING", nil)
		s.writing.Unlock()
		if err != nil {
			now.link.abort()
			return
		}
	}
}
