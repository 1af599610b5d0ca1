package bus

import (
	"context"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus/redis"
)

// Newcomers yields when a stream has got new readers, for whom its last event must be
// published again: on redis, which keeps no events. It is for streams that publish a
// state, and seldom; present readers get it again too. On a bus that gives new readers
// the last event itself, the channel is nil. It yields until ctx ends, and stays open.
func Newcomers(ctx context.Context, b Bus, module string, object zbus.ObjectID, event string) <-chan struct{} {
	r, ok := b.(*redis.Bus)
	if !ok {
		return nil
	}
	return r.Newcomers(ctx, channelName(module, object, event))
}
