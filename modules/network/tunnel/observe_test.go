package tunnel

import (
	"context"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/network/carrier"
)

// TestObserveBeforeTheFirstConnection holds that networks can be listed while there is no carrier yet, and none can be had.
func TestObserveBeforeTheFirstConnection(t *testing.T) {
	tunnels := New(Config{Carrier: carrier.Config{RunDir: t.TempDir(), Command: []string{"false"}, Log: zerolog.Nop()}, Connected: func() {}, Log: zerolog.Nop()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, o := range map[string]Observation{"all": tunnels.Observe(ctx), "one": tunnels.ObserveOne(ctx, "1-1")} {
		if o.away == "" || tunnels.Connected() {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
