package redis

import (
	"context"
	"errors"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/node"
)

// Bus is a bus on a redis server. It keeps its connections; when the server
// goes away, calls fail as transient, and servers and streams go on when it is
// back.
type Bus struct {
	options Options
	links   *links
	streams *subscriptions
	count   transport.Counters
}

// Options are what a Bus tells of itself.
type Options struct {
	Log zerolog.Logger
	// OnResume is called, when not nil, after the stream on channel was cut off
	// for down and goes on; events of that time are lost. It must not block.
	OnResume func(channel string, down time.Duration)
}

// Connect reaches the redis server at url and fails when it can't, or isn't
// let in.
func Connect(ctx context.Context, url string, options Options) (*Bus, error) {
	e, err := transport.ParseURL(url)
	if err != nil {
		return nil, err
	}
	b := &Bus{options: options, links: newLinks(e)}
	b.streams = newSubscriptions(b)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	err = b.links.use(ctx, func(l *link) error {
		_, err := l.Do("PING")
		return err
	})
	if err != nil {
		b.links.close()
		return nil, node.Errorf(node.Transient, "cannot use the bus at %s: %w", e.Shown, err)
	}
	return b, nil
}

// Close implements transport.Bus.
func (b *Bus) Close() error {
	b.streams.close()
	b.links.close()
	return nil
}

// Counters implements transport.Bus.
func (b *Bus) Counters() *transport.Counters { return &b.count }

// Serve implements transport.Bus.
func (b *Bus) Serve(...string) {}

// Subscribe implements transport.Bus.
func (b *Bus) Subscribe(ctx context.Context, channel string) (<-chan zbus.Event, error) {
	return b.streams.subscribe(ctx, channel)
}

// Push implements transport.Bus.
func (b *Bus) Push(ctx context.Context, key string, frame []byte, ttl time.Duration) (bool, error) {
	sent := false
	err := b.links.use(ctx, func(l *link) error {
		// What was written less than whole can't have been taken.
		before := l.net.written
		defer func() { sent = l.net.written-before >= len(frame) }()
		if err := l.Send("RPUSH", key, frame); err != nil {
			return err
		}
		if err := l.Send("EXPIRE", key, max(1, int64((ttl+time.Second-1)/time.Second))); err != nil {
			return err
		}
		if err := l.Flush(); err != nil {
			return err
		}
		_, err := l.Receive()
		// Once the frame is there, it does no harm that it may stay too long.
		_, _ = l.Receive()
		return err
	})
	var said redigo.Error
	if errors.As(err, &said) {
		// The server refused it.
		return false, err
	}
	return sent, err
}

// Silent implements transport.Bus: redis keeps nothing that was published.
func (b *Bus) Silent(string) {}

// Publish implements transport.Bus.
func (b *Bus) Publish(ctx context.Context, channel string, frame []byte) error {
	return b.links.use(ctx, func(l *link) error {
		_, err := l.Do("PUBLISH", channel, frame)
		return err
	})
}

// Readers is how many streams are being read through this bus.
func (b *Bus) Readers() int { return b.streams.readers() }
