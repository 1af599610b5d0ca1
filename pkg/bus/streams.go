package bus

import (
	"context"
	"reflect"
	"runtime/debug"
	"sync"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/supervise"
)

// streams publishes the events of a module's objects. A stream that nobody reads doesn't run, where the bus knows that: each measures or
// counts something, again and again. Its first event comes at once, or after an interval; so none is missed that a reader could have had.
type streams struct {
	bus    Bus
	module string
	log    zerolog.Logger
	counts *counts
}

// start publishes the events of the objects' streams until ctx ends.
func (s *streams) start(ctx context.Context, of *objects, running *sync.WaitGroup) {
	for id, o := range of.all() {
		for name, fn := range o.streams {
			running.Go(func() {
				defer s.bus.Silent(channelName(s.module, id, name))
				_ = supervise.Keep(ctx, s.log, "bus stream", supervise.DefaultBackoff(), func(ctx context.Context) error {
					s.keep(ctx, id, name, fn)
					return ctx.Err()
				})
			})
		}
	}
}

// keep restarts a stream that ends by itself, with growing pauses.
func (s *streams) keep(ctx context.Context, id zbus.ObjectID, name string, fn reflect.Value) {
	channel := channelName(s.module, id, name)
	retry := transport.NewBackoff()
	for s.awaitReader(ctx, channel) {
		came, err := s.run(ctx, channel, fn)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errUnread) {
			continue
		}
		if came {
			retry.Reset()
		}
		if retry.First() {
			s.log.Warn().Str("step", "bus").Err(err).Str("stream", channel).Msg("a stream ended by itself, starting it again")
		}
		if transport.Pause(ctx, retry.Next()) != nil {
			return
		}
	}
}

// errUnread is the end of a stream that nobody reads any more.
var errUnread = errors.New("nobody reads it")

// awaitReader waits until somebody reads the channel; false when ctx is done.
func (s *streams) awaitReader(ctx context.Context, channel string) bool {
	for ctx.Err() == nil {
		read, changed := s.bus.IsRead(channel)
		if read {
			return true
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
	return false
}

// run publishes until the stream or ctx ends, or nobody reads it; came reports whether there was an event.
func (s *streams) run(ctx context.Context, channel string, fn reflect.Value) (came bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.counts.panicked.Add(1)
			s.log.Error().Str("step", "bus").Str("stream", channel).Interface("panic", p).
				Bytes("stack", debug.Stack()).Msg("a stream panicked")
			err = errors.New("it panicked")
		}
	}()
	events := fn.Call([]reflect.Value{reflect.ValueOf(ctx)})[0]
	if events.IsNil() {
		return false, errors.New("its channel is nil")
	}
	// An implementation that doesn't close its channel mustn't block the server.
	cases := []reflect.SelectCase{
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())},
		{Dir: reflect.SelectRecv, Chan: events},
		{Dir: reflect.SelectRecv}, // the channel's readers
	}
	outage := transport.NewBackoff()
	for {
		read, changed := s.bus.IsRead(channel)
		if !read {
			s.bus.Silent(channel) // the last event grows old
			return came, errUnread
		}
		cases[2].Chan = reflect.ValueOf(changed)
		chosen, event, ok := reflect.Select(cases)
		if chosen == 0 || ctx.Err() != nil {
			return came, nil
		}
		if chosen == 2 {
			continue
		}
		if !ok {
			return came, errors.New("its channel was closed")
		}
		came = true
		s.publish(ctx, channel, event.Interface(), outage)
	}
}

// publish sends one event. An event that can't be sent is lost: the next one is
// newer. An outage is logged once.
func (s *streams) publish(ctx context.Context, channel string, event any, outage *transport.Backoff) {
	frame, err := encode(event)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, transport.SendTimeout)
		defer cancel()
		err = s.bus.Publish(ctx, channel, frame)
	}
	if err == nil {
		outage.Reset()
		return
	}
	if ctx.Err() != nil {
		return
	}
	s.counts.lost.Add(1)
	if outage.First() {
		s.log.Warn().Str("step", "bus").Err(err).Str("stream", channel).Msg("cannot publish an event")
	}
}
