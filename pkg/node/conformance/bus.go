package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// OnBus serves implementation as an object of module on an in-process bus of
// its own, and returns a client for its stub. All of it ends with the test.
func OnBus[C any](t *testing.T, module string, object zbus.ObjectID, implementation C) zbus.Client {
	t.Helper()
	b := bus.NewInProcess()
	options := bus.Options{Timeout: time.Minute}
	server, err := bus.NewServer(b, module, options)
	expect.NoError(t, err)
	expect.NoError(t, bus.Register(server, object, implementation))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	client := bus.NewClient(b, options)
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}
