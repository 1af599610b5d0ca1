package plane

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/parts"
	"github.com/croft-edge/croft/pkg/resources/work"
)

// TestAControllerThatPanicsIsStartedAgain: and the engine, which shows itself meanwhile, doesn't notice.
func TestAControllerThatPanicsIsStartedAgain(t *testing.T) {
	p := open(t, Config{})
	engine := NewEngine(EngineConfig{Orders: refusing{}, ClockChanged: func() {}, Log: zerolog.Nop()})
	var starts atomic.Int64
	p.Add(engine, &probe{name: "Panics", do: func(context.Context, controller.Runtime) error {
		if starts.Add(1) < 3 {
			panic("for the test")
		}
		return nil
	}}, &Observer{Of: &host.Store{}, Log: zerolog.Nop(), Look: func(context.Context) ([]resource.Resource, error) {
		if starts.Add(1) < 6 {
			panic("a look for the test")
		}
		return []resource.Resource{host.NewStore(host.StoreSpec{Birth: "b"})}, nil
	}})
	run(t, p)
	engine.Workloads([]work.WorkloadSpec{{ID: "1-1", Phase: "deployed"}}, nil)
	until(t, "the workload is shown", func() bool {
		_, err := safe.StateGetByID[*work.Workload](t.Context(), p.State(), "1-1")
		return err == nil
	})
	until(t, "the panicking ones were started again", func() bool {
		_, err := safe.StateGetByID[*host.Store](t.Context(), p.State(), host.Node)
		return starts.Load() >= 6 && err == nil
	})
}

// refusing carries nothing out.
type refusing struct{}

func (refusing) CarryOut(context.Context, work.OrderSpec) (string, error) { return "", nil }

// once runs one function as a controller with those inputs and outputs, and returns its error.
func once(t *testing.T, p *Plane, inputs []controller.Input, outputs []controller.Output, do func(ctx context.Context, r controller.Runtime) error) error {
	t.Helper()
	result := make(chan error, 1)
	var first sync.Once
	p.Add(&probe{name: "Probe", inputs: inputs, outputs: outputs, do: func(ctx context.Context, r controller.Runtime) error {
		first.Do(func() { result <- do(ctx, r) })
		return nil
	}})
	run(t, p)
	select {
	case err := <-result:
		return err
	case <-time.After(soon):
		t.Fatal("the controller doesn't run")
		return nil
	}
}

func TestOnlyDeclaredIsRead(t *testing.T) {
	p := open(t, Config{})
	err := once(t, p, []controller.Input{weak(&host.Clock{})}, nil, func(ctx context.Context, r controller.Runtime) error {
		_, err := safe.ReaderListAll[*work.Workload](ctx, r)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "not input or output for controller") {
		t.Fatalf("a controller read what it hasn't declared: %v", err)
	}
}

// TestInputsAreNotOurs: of an input a controller may change its finalizers, if the input is a strong one, and no more.
func TestInputsAreNotOurs(t *testing.T) {
	order := work.NewOrder("1", work.OrderSpec{Kind: work.Restored})
	for name, c := range map[string]struct {
		input   controller.Input
		refused string
		do      func(ctx context.Context, r controller.Runtime) error
	}{
		"a finalizer of a strong input": {strong(&work.Order{}), "", func(ctx context.Context, r controller.Runtime) error {
			return r.AddFinalizer(ctx, order.Metadata(), "Probe")
		}},
		"a finalizer of a weak input": {weak(&work.Order{}), "not an input with Strong dependency", func(ctx context.Context, r controller.Runtime) error {
			return r.AddFinalizer(ctx, order.Metadata(), "Probe")
		}},
		"a change of a strong input": {strong(&work.Order{}), "is not an output", func(ctx context.Context, r controller.Runtime) error {
			return r.Modify(ctx, order, func(resource.Resource) error { return nil })
		}},
		"the end of a strong input": {strong(&work.Order{}), "is not an output", func(ctx context.Context, r controller.Runtime) error {
			return r.Destroy(ctx, order.Metadata())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, Config{})
			if err := p.State().Create(t.Context(), work.NewOrder("1", work.OrderSpec{Kind: work.Restored})); err != nil {
				t.Fatal(err)
			}
			err := once(t, p, []controller.Input{c.input}, nil, c.do)
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Fatalf("got %v, want %q", err, c.refused)
			}
		})
	}
}

func TestASecondWriterIsRefused(t *testing.T) {
	p := open(t, Config{})
	p.Add(
		NewEngine(EngineConfig{Orders: refusing{}, ClockChanged: func() {}, Log: zerolog.Nop()}),
		&probe{name: "Second", outputs: []controller.Output{{Type: work.WorkloadsType, Kind: controller.OutputExclusive}}},
	)
	if _, err := p.Graph(); err == nil || !strings.Contains(err.Error(), "Engine") {
		t.Fatalf("a second writer of workloads is allowed: %v", err)
	}
	_ = p.Close()
}

// TestAnothersEventIsRefused: writers of events share the type, and none changes another's.
func TestAnothersEventIsRefused(t *testing.T) {
	p := open(t, Config{})
	engine := NewEngine(EngineConfig{Orders: refusing{}, ClockChanged: func() {}, Log: zerolog.Nop()})
	p.Add(engine)
	engine.Event(work.EventSpec{Kind: work.Normal, Reason: work.ReasonCreated, Object: "volume/1-1", Last: time.Now()})
	shared := []controller.Output{{Type: work.EventsType, Kind: controller.OutputShared}}
	err := once(t, p, nil, shared, func(ctx context.Context, r controller.Runtime) error {
		var event *work.Event
		until(t, "there is an event", func() bool {
			all, err := safe.ReaderListAll[*work.Event](ctx, r)
			if err == nil && all.Len() == 1 {
				event = all.Get(0)
			}
			return event != nil
		})
		return r.Modify(ctx, event, func(is resource.Resource) error {
			is.(*work.Event).TypedSpec().Message = "changed"
			return nil
		})
	})
	if err == nil || !strings.Contains(err.Error(), "owned by") {
		t.Fatalf("got %v, want a refusal that names the owner", err)
	}
}

// TestNetworksFollowTheirModule: the parts of a module are looked at while it answers, and then when workloads
// change; what was seen last stays while it doesn't.
func TestNetworksFollowTheirModule(t *testing.T) {
	p := open(t, Config{})
	engine := NewEngine(EngineConfig{Orders: refusing{}, ClockChanged: func() {}, Log: zerolog.Nop()})
	var down atomic.Bool
	var looks atomic.Int64
	down.Store(true)
	p.Add(engine, &Observer{Of: &host.ModuleConfig{}, Log: zerolog.Nop(), Look: func(context.Context) ([]resource.Resource, error) {
		return []resource.Resource{host.NewModuleConfig(host.ModuleConfigSpec{Name: "network"})}, nil
	}}, &Observer{
		Of: &parts.Network{}, Module: "network", By: workloadsOnly(), Log: zerolog.Nop(),
		Look: func(context.Context) ([]resource.Resource, error) {
			n := looks.Add(1)
			return []resource.Resource{parts.NewNetwork(nodeNetwork("1-1", n)), parts.NewNetwork(nodeNetwork("2-1", n)), parts.NewNetwork(nodeNetwork("1-1", 7))}, nil
		},
	})
	p.AddQueued(&Modules{Poke: func() {}, Off: func(string) bool { return false }, Switch: func(string, bool) {}, Log: zerolog.Nop(), Ask: func(context.Context, string, *host.ModuleSpec) error {
		if down.Load() {
			return context.DeadlineExceeded
		}
		return nil
	}})
	run(t, p)
	running := func(is resources.Status) func() bool {
		return func() bool {
			m, err := safe.StateGetByID[*host.Module](t.Context(), p.State(), "network")
			if err != nil {
				return false
			}
			c, _ := resources.Find(m.TypedSpec().Conditions, host.Running)
			return c.Status == is
		}
	}
	until(t, "the module is known not to answer", running(resources.False))
	engine.Workloads([]work.WorkloadSpec{{ID: "1-1", Phase: "deployed"}}, nil)
	if looks.Load() != 0 {
		t.Fatalf("a module that doesn't answer was asked for its networks %d times", looks.Load())
	}
	down.Store(false)
	until(t, "the networks are shown", func() bool {
		_, err := safe.StateGetByID[*parts.Network](t.Context(), p.State(), "1-1")
		return err == nil
	})
	until(t, "two of one ID are two", func() bool {
		first, err := safe.StateGetByID[*parts.Network](t.Context(), p.State(), "1-1")
		second, also := safe.StateGetByID[*parts.Network](t.Context(), p.State(), "1-1~2")
		return err == nil && also == nil && first.TypedSpec().ListenPort != 7 && second.TypedSpec().ListenPort == 7
	})
	before := looks.Load()
	engine.Workloads([]work.WorkloadSpec{{ID: "1-1", Phase: "leaving"}}, nil)
	until(t, "a change of a workload has them looked at", func() bool { return looks.Load() > before })
}
