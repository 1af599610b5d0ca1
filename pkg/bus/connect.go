package bus

import (
	"context"

	"github.com/croft-edge/croft/pkg/bus/redis"
)

// Connect connects to the redis server at url and fails when it can't, or its login
// is refused. url is one of
//
//	redis://[[user]:password@]host[:port][/db]
//	tcp://[password@]host[:port]
//	unix:///path[?db=n]
//
// A broker's socket is reached in the same way.
func Connect(ctx context.Context, url string, options Options) (*redis.Bus, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	return redis.Connect(ctx, url, redis.Options{Log: options.Log, OnResume: options.OnResume})
}
