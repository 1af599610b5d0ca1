package plane

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/host"
)

// TestFiguresAloneDontWake holds that a module whose figures are other ones at each answer isn't shown anew for that, but for whoever waits
// for an answer, and that all else that changes is shown at once.
func TestFiguresAloneDontWake(t *testing.T) {
	const name = "container"
	p := open(t, Config{})
	var asked atomic.Uint64
	var containers atomic.Uint64
	changed := newPoke()
	modules := &Modules{
		Names: []string{name}, Poke: changed.kick, Off: func(string) bool { return false }, Switch: func(string, bool) {}, Log: zerolog.Nop(),
		Ask: func(_ context.Context, _ string, spec *host.ModuleSpec) error {
			spec.Phase = "Running"
			spec.Container = &node.ContainerStatus{Containers: containers.Load(), LogCarrierMemory: asked.Load()}
			asked.Add(1)
			return nil
		},
	}
	p.Add(&Observer{Of: &host.ModuleConfig{}, Changed: changed, Log: zerolog.Nop(), Look: func(context.Context) ([]resource.Resource, error) {
		return []resource.Resource{host.NewModuleConfig(host.ModuleConfigSpec{Name: name, Command: name, Asked: modules.Poked()})}, nil
	}})
	p.AddQueued(modules)
	run(t, p)
	shown := func() host.ModuleSpec {
		m, err := safe.StateGetByID[*host.Module](t.Context(), p.State(), name)
		if err != nil {
			return host.ModuleSpec{}
		}
		return *m.TypedSpec()
	}
	until(t, "the module is shown", func() bool { return shown().Container != nil })
	first := *shown().Container
	for range 3 {
		before := asked.Load()
		modules.Again()
		until(t, "it has answered again", func() bool { return asked.Load() > before })
	}
	containers.Store(1) // the answer that shows this is written after those before
	modules.Again()
	until(t, "another number of containers is shown", func() bool { return shown().Container.Containers == 1 })
	if m, err := safe.StateGetByID[*host.Module](t.Context(), p.State(), name); err != nil || m.Metadata().Version().Value() != 2 {
		t.Errorf("version %s, %v; must be 2: as it was first, with memory %d, and with another container", m.Metadata().Version(), err, first.LogCarrierMemory)
	}
	before := shown().Container.LogCarrierMemory
	modules.AskNow(t.Context())
	if now := shown().Container.LogCarrierMemory; now <= before {
		t.Errorf("whoever waited for an answer gets a memory of %d bytes, %d was shown before", now, before)
	}
}
