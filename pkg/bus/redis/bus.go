package redis

import (
	"context"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/pkg/errors"
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

// Options configure a Bus's log and notifications.
type Options struct {
	Log zerolog.Logger
	// OnResume, when not nil, is called when the stream on channel resumes after
	// down; events of that time are lost. It must not block.
	OnResume func(channel string, down time.Duration)
}

// Connect connects to the redis server at url and fails when it can't, or its
// login is refused.
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
		// Redis can't have taken a frame that was written in part.
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
		// Once the frame is there, it does no harm when it stays too long.
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

// Silent implements transport.Bus: redis keeps no published events.
func (b *Bus) Silent(string) {}

// IsRead implements transport.Bus: who reads a channel is known to the server alone.
func (b *Bus) IsRead(string) (read bool, changed <-chan struct{}) { return true, nil }

// Publish implements transport.Bus.
func (b *Bus) Publish(ctx context.Context, channel string, frame []byte) error {
	return b.links.use(ctx, func(l *link) error {
		_, err := l.Do("PUBLISH", channel, frame)
		return err
	})
}

// Readers is the number of streams read through this bus.
func (b *Bus) Readers() int { return b.streams.readers() }
