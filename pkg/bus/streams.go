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

// streams publishes the events of a module's objects.
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
	for {
		came, err := s.run(ctx, channel, fn)
		if ctx.Err() != nil {
			return
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

// run publishes until the stream or ctx ends; came reports whether there was an event.
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
	}
	outage := transport.NewBackoff()
	for {
		chosen, event, ok := reflect.Select(cases)
		if chosen == 0 || ctx.Err() != nil {
			return came, nil
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
