package module_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
)

// A second process of a module can't open it, and must take no calls away from the first, whatever it was before that.
func TestNobodyStandsInForAModuleOfAnotherProcess(t *testing.T) {
	healthy := &fake{name: "one"}
	d := healthy.descriptor()
	d.Objects = []zbus.ObjectID{bus.Object("greeter", "1.0")}
	var b bus.Bus
	first := gather(t, func(cfg *module.SupervisorConfig) { b = cfg.Host.Bus }, d)
	first.wait(t, "one", module.Running)

	second := &fake{name: "one"}
	second.opens(func(context.Context, module.Host) error { return errors.New("cannot reach containerd") })
	sd := second.descriptor()
	sd.Objects = d.Objects
	c := gather(t, func(cfg *module.SupervisorConfig) { cfg.Host.Bus = b }, sd)
	c.wait(t, "one", module.Failed) // there is a stand-in
	second.opens(func(context.Context, module.Host) error {
		return node.Errorf(node.Busy, "cannot open the module: another one has its folder open")
	})
	before := c.Queue().Failures
	for deadline := time.Now().Add(patience); c.Queue().Failures < before+3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it isn't opened again")
		}
	}
	client := bus.NewClient(b, bus.Options{})
	t.Cleanup(func() { _ = client.Close() })
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if _, err := client.RequestContext(ctx, "one", bus.Object("greeter", "1.0"), "Greet"); err != nil {
			t.Errorf("the first process's module answers %v", err)
		}
		cancel()
	}
	if opened, _, _ := second.counts(); opened != 0 {
		t.Errorf("the second is opened %d times", opened)
	}
	c.end(t)
	first.end(t)
}
