package bus

import (
	"context"
	"errors"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/gomodule/redigo/redis"
	"github.com/threefoldtech/zbus"
)

// Redis is a bus on a redis server. It keeps its connections; when the server
// goes away, calls fail as transient, and servers and streams go on when it is
// back.
type Redis struct {
	options Options
	links   *links
	streams *subscriptions
	count   streamCounters
}

// Connect reaches the redis server at url and fails when it can't, or isn't
// let in. url is one of
//
//	redis://[[user]:password@]host[:port][/db]
//	tcp://[password@]host[:port]
//	unix:///path[?db=n]
//
// The socket of a Broker is reached in the same way.
func Connect(ctx context.Context, url string, options Options) (*Redis, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	e, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	b := &Redis{options: options.withDefaults(), links: newLinks(e)}
	b.streams = newSubscriptions(b)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	err = b.links.use(ctx, func(l *link) error {
		_, err := l.Do("PING")
		return err
	})
	if err != nil {
		b.links.close()
		return nil, node.Errorf(node.Transient, "cannot use the bus at %s: %w", e.shown, err)
	}
	return b, nil
}

// Close implements Bus.
func (b *Redis) Close() error {
	b.streams.close()
	b.links.close()
	return nil
}

func (b *Redis) counters() *streamCounters { return &b.count }

func (b *Redis) serve(...string) {}

func (b *Redis) subscribe(ctx context.Context, channel string) (<-chan zbus.Event, error) {
	return b.streams.subscribe(ctx, channel)
}

func (b *Redis) push(ctx context.Context, key string, frame []byte, ttl time.Duration) (bool, error) {
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
	var said redis.Error
	if errors.As(err, &said) {
		// The server refused it.
		return false, err
	}
	return sent, err
}

// silent does nothing: redis keeps nothing that was published.
func (b *Redis) silent(string) {}

func (b *Redis) publish(ctx context.Context, channel string, frame []byte) error {
	return b.links.use(ctx, func(l *link) error {
		_, err := l.Do("PUBLISH", channel, frame)
		return err
	})
}
