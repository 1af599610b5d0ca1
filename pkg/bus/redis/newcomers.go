package redis

import (
	"context"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/pkg/bus/transport"
	"github.com/croft-edge/croft/pkg/supervise"
)

const (
	// newcomersEvery is the interval of asking redis for a stream's readers.
	newcomersEvery = 2 * time.Second
	// newcomersAnyway is the longest wait of a reader that came as another went,
	// which the number of readers doesn't show.
	newcomersAnyway = time.Minute
)

// Newcomers yields when a channel has got new readers, for whom its last event must be
// published again, until ctx ends: redis keeps no events.
func (b *Bus) Newcomers(ctx context.Context, channel string) <-chan struct{} {
	out := make(chan struct{}, 1)
	// Counted before the stream's first event: the present readers get that one.
	before, _ := b.readers(ctx, channel)
	go func() {
		_ = supervise.Keep(ctx, b.options.Log, "bus newcomers", supervise.DefaultBackoff(), func(ctx context.Context) error {
			b.watchReaders(ctx, channel, before, out)
			return ctx.Err()
		})
	}()
	return out
}

// watchReaders yields when the number of readers has grown, and now and then while there are any.
func (b *Bus) watchReaders(ctx context.Context, channel string, before int, out chan<- struct{}) {
	told := time.Now()
	for transport.Pause(ctx, newcomersEvery) == nil {
		now, err := b.readers(ctx, channel)
		if err != nil {
			// The readers come again when redis is back.
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
func (b *Bus) readers(ctx context.Context, channel string) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, transport.SendTimeout)
	defer cancel()
	err = b.links.use(ctx, func(l *link) error {
		counts, err := redigo.IntMap(l.Do("PUBSUB", "NUMSUB", channel))
		n = counts[channel]
		return err
	})
	return n, err
}
