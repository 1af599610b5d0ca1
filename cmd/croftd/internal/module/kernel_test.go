package module_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/kernel"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
)

// What a module lacks of the kernel is told while it runs, and while that keeps it from running.
func TestKernelOfAModule(t *testing.T) {
	one := &fake{name: "one"}
	d := one.descriptor()
	d.Objects, d.Kernel = []zbus.ObjectID{bus.Object("greeter", "1.0")}, true
	there := atomic.Bool{}
	d.Constraints = func(f module.Facts) []module.Unmet {
		if there.Load() {
			return nil
		}
		return append(module.Facts{Kernel: "5.10.0"}.NeedsKernel(5, 19), module.Unmet{What: "a machine with memory", Is: "one without"})
	}
	opens := d.Open
	d.Open = func(ctx context.Context, h module.Host) (*module.Instance, error) {
		i, err := opens(ctx, h)
		if err == nil {
			i.Features = []kernel.Feature{{Name: "tap", Effect: "no taps", Try: func(context.Context) error { return errors.New("no /dev/net/tun") }}}
		}
		return i, err
	}
	var b bus.Bus
	c := gather(t, func(cfg *module.SupervisorConfig) { b = cfg.Host.Bus }, d)
	client := bus.NewClient(b, bus.Options{})
	t.Cleanup(func() { _ = client.Close() })
	lacks := func(want node.KernelLack) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for {
			is, err := stubs.NewKernelStub(client, "one").Lacks(ctx)
			if err == nil && len(is.Lacks) == 1 && is.Lacks[0] == want {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("it lacks %+v, %v, want %+v", is, err, want)
			}
			<-time.After(time.Millisecond)
		}
	}
	c.wait(t, "one", module.Pending)
	lacks(node.KernelLack{Feature: "kernel 5.19 or newer", State: node.KernelMissing, Why: "kernel 5.19 or newer is needed, this is 5.10.0", Effect: "module one doesn't run"})
	there.Store(true)
	c.wait(t, "one", module.Running)
	lacks(node.KernelLack{Feature: "tap", State: node.KernelMissing, Why: "no /dev/net/tun", Effect: "no taps"})
}
