package tunnel

import (
	"context"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/node"
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

// TestACallerThatGoesAwayDoesNotChooseTheBackend holds that the kernel's WireGuard is asked for again after a caller's time was up first.
func TestACallerThatGoesAwayDoesNotChooseTheBackend(t *testing.T) {
	tunnels := New(Config{Namespaces: t.TempDir(), Log: zerolog.Nop()})
	ctx, cancel := context.WithCancel(t.Context())
	tunnels.detect = func(context.Context) (bool, string) {
		cancel()
		return false, "it took too long to make a link"
	}
	if err := tunnels.choose(ctx); node.KindOf(err) != node.Transient || tunnels.Backend() != "" || tunnels.Why() != "" {
		t.Errorf("the backend is %q, because %q (%v)", tunnels.Backend(), tunnels.Why(), err)
	}
	tunnels.detect = func(context.Context) (bool, string) { return true, "" }
	if err := tunnels.choose(t.Context()); err != nil || tunnels.Backend() != wireguard.KernelName || tunnels.Why() != "" {
		t.Errorf("then the backend is %q, because %q (%v)", tunnels.Backend(), tunnels.Why(), err)
	}
}
