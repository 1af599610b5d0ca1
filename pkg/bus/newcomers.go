package bus

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/gomodule/redigo/redis"
	"github.com/threefoldtech/zbus"
)

const (
	// newcomersEvery is how often redis is asked who reads a stream.
	newcomersEvery = 2 * time.Second
	// newcomersAnyway is how long a reader waits at most who came as another went,
	// which the number doesn't tell.
	newcomersAnyway = time.Minute
)

// Newcomers yields when a stream has got readers to whom its last event must be
// published again: on redis, which keeps no events. It is for streams that tell a state,
// and seldom; those who read it already hear it again. On a bus that gives new readers
// the last event itself, the channel is nil. It yields until ctx ends, and stays open.
func Newcomers(ctx context.Context, b Bus, module string, object zbus.ObjectID, event string) <-chan struct{} {
	r, ok := b.(*Redis)
	if !ok {
		return nil
	}
	out := make(chan struct{}, 1)
	channel := channelName(module, object, event)
	// Counted before the stream's first event: who is there by then gets that one.
	before, _ := r.readers(ctx, channel)
	go func() {
		_ = supervise.Keep(ctx, r.options.Log, "bus newcomers", supervise.DefaultBackoff(), func(ctx context.Context) error {
			r.watchReaders(ctx, channel, before, out)
			return ctx.Err()
		})
	}()
	return out
}

// watchReaders yields when the number of readers has grown, and now and then while there are any.
func (b *Redis) watchReaders(ctx context.Context, channel string, before int, out chan<- struct{}) {
	told := time.Now()
	for pause(ctx, newcomersEvery) == nil {
		now, err := b.readers(ctx, channel)
		if err != nil {
			// They come anew when redis is back.
			before = 0
			continue
		}
		if now > before || now > 0 && time.Since(told) >= newcomersAnyway {
			told = time.Now()
			select {
			case out <- struct{}{}:
			default:
			}
		}
		before = now
	}
}

// readers is how many connections read a channel.
func (b *Redis) readers(ctx context.Context, channel string) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err = b.links.use(ctx, func(l *link) error {
		counts, err := redis.IntMap(l.Do("PUBSUB", "NUMSUB", channel))
		n = counts[channel]
		return err
	})
	return n, err
}
