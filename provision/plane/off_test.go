package plane

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
)

// switches are an operator's switches and the modules behind them.
type switches struct {
	mu  sync.Mutex
	off map[string]bool
	// closed are the modules that aren't open.
	closed map[string]bool
}

func (s *switches) isOff(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.off[name]
}

func (s *switches) set(name string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed[name] = !on
}

func (s *switches) turn(name string, off bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off[name] = off
}

func (s *switches) isClosed(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed[name]
}

// TestAModuleIsClosedAfterItsWorkloads draws lives of workloads and an operator's switches: in the end, a module is closed exactly if it is
// switched off and nothing that needs it is on the node.
func TestAModuleIsClosedAfterItsWorkloads(t *testing.T) {
	names := []string{"container", "zdb"}
	needs := map[workload.Type][]string{workload.TypeContainer: {"container"}, workload.TypeZDB: {"container", "zdb"}}
	types := []workload.Type{workload.TypeContainer, workload.TypeZDB, workload.TypeVolume}
	s := &switches{off: map[string]bool{}, closed: map[string]bool{}}
	p := open(t, Config{})
	asked := newPoke()
	modules := &Modules{Names: names, Poke: asked.kick, Off: s.isOff, Switch: s.set, Log: zerolog.Nop(), Ask: func(context.Context, string, *host.ModuleSpec) error { return nil }}
	engine := NewEngine(EngineConfig{Orders: refusing{}, Needs: needs, Held: modules.Again, ClockChanged: func() {}, Log: zerolog.Nop()})
	p.Add(engine, &Observer{Of: &host.ModuleConfig{}, Changed: asked, Log: zerolog.Nop(), Look: func(context.Context) (out []resource.Resource, _ error) {
		for _, name := range names {
			out = append(out, host.NewModuleConfig(host.ModuleConfigSpec{Name: name, Command: name, Asked: modules.Poked()}))
		}
		return out, nil
	}})
	p.AddQueued(modules)
	run(t, p)
	here := map[string]workload.Type{}
	rapid.Check(t, func(r *rapid.T) {
		for range rapid.IntRange(1, 6).Draw(r, "steps") {
			id := fmt.Sprintf("%d-1", rapid.IntRange(1, 4).Draw(r, "id"))
			kind := rapid.SampledFrom(types).Draw(r, "type")
			if was, has := here[id]; has {
				kind = was // a workload keeps its type
			}
			switch rapid.IntRange(0, 3).Draw(r, "what") {
			case 0:
				name := rapid.SampledFrom(names).Draw(r, "module")
				s.turn(name, !s.isOff(name))
				modules.Again()
			case 1:
				delete(here, id)
				engine.Workloads(nil, []string{id})
			default:
				phase := rapid.SampledFrom(lifecycle.Phases()).Draw(r, "phase")
				if phase.Tombstone() || phase == lifecycle.Waiting {
					delete(here, id)
				} else {
					here[id] = kind
				}
				engine.Workloads([]work.WorkloadSpec{{ID: id, Type: kind, Phase: string(phase)}}, nil)
			}
		}
		for _, name := range names {
			needed := false
			for _, kind := range here {
				for _, each := range needs[kind] {
					needed = needed || each == name
				}
			}
			want := s.isOff(name) && !needed
			until(t, fmt.Sprintf("%s is closed: %v", name, want), func() bool {
				m, err := safe.StateGetByID[*host.Module](t.Context(), p.State(), name)
				return err == nil && s.isClosed(name) == want && (m.TypedSpec().Phase == "Disabled") == want && m.Metadata().Finalizers().Has(engineFinalizer) == needed
			})
		}
	})
}

// poke wakes an observer.
type poke chan struct{}

func newPoke() poke { return make(poke, 1) }

func (p poke) kick() {
	select {
	case p <- struct{}{}:
	default:
	}
}
