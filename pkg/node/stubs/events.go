package stubs

import (
	"context"

	"github.com/pkg/errors"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/node"
)

// How many events wait for a slow reader before the oldest is dropped.
const (
	newest = 1
	every  = 64
)

// source names a stream.
type source struct {
	module string
	object zbus.ObjectID
	event  string
}

// skipper is a client that counts undecodable events.
type skipper interface {
	SkippedEvent(module string, object zbus.ObjectID, event string, err error)
}

// events decodes a stream until ctx ends.
func events[T any](ctx context.Context, client zbus.Client, from source, keep int) (<-chan T, error) {
	received, err := client.Stream(ctx, from.module, from.object, from.event)
	if err != nil {
		return nil, kinded(err, node.Transient)
	}
	out := make(chan T, keep)
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case event, ok := <-received:
				if !ok {
					return
				}
				value, err := decode[T](event)
				if err != nil {
					if s, ok := client.(skipper); ok {
						s.SkippedEvent(from.module, from.object, from.event, err)
					}
					continue
				}
				offer(out, value)
			}
		}
	}()
	return out, nil
}

func decode[T any](event zbus.Event) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.Errorf("cannot decode an event: %v", p)
		}
	}()
	if err := event.Unmarshal(&value); err != nil {
		return value, errors.Wrap(err, "cannot decode an event")
	}
	return value, nil
}

// offer drops the oldest value when there is no room. It is the only sender.
func offer[T any](out chan T, value T) {
	for {
		select {
		case out <- value:
			return
		default:
		}
		select {
		case <-out:
		default:
		}
	}
}
