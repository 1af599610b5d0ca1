package daemon

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/supervise"
)

// startModules opens the modules of this process, each by itself: one that fails or hangs touches no other.
func (d *daemon) startModules(parts *supervise.Group) error {
	var own []module.Descriptor
	for _, m := range module.SupportFirst(d.Modules) {
		if d.runs(m.Name) {
			own = append(own, m)
		}
	}
	d.phases = newPhases()
	if len(own) == 0 {
		return nil
	}
	supervisor, err := module.NewSupervisor(module.SupervisorConfig{
		Modules: own, Host: d.host(), Facts: module.ReadFacts, Watcher: d.phases, Log: d.Log,
	})
	if err != nil {
		return err
	}
	d.settings.modules = supervisor
	parts.Start(supervise.Part{Name: "modules", Run: supervisor.Run, Within: module.StopTimeout})
	return nil
}

// phases are the phases of the modules of this process.
type phases struct {
	mu sync.Mutex
	of map[string]module.State
	// changed is called after each change of a module's state.
	changed func(name string, s module.State)
}

func newPhases() *phases {
	return &phases{of: map[string]module.State{}, changed: func(string, module.State) {}}
}

// Changed implements module.Watcher.
func (p *phases) Changed(name string, s module.State) {
	p.mu.Lock()
	p.of[name] = s
	changed := p.changed
	p.mu.Unlock()
	changed(name, s)
}

// notify has f called after each change from now on, and for each state that there is.
func (p *phases) notify(f func(name string, s module.State)) {
	p.mu.Lock()
	p.changed = f
	before := maps.Clone(p.of)
	p.mu.Unlock()
	for name, s := range before {
		f(name, s)
	}
}

// moduleEvent is what a module's state makes known: that it doesn't run, and why.
func moduleEvent(name string, s module.State, now time.Time) (work.EventSpec, bool) {
	why, known := map[string]string{
		module.ReasonLoadFailed: work.ReasonLoadFailed, module.ReasonConstraintUnmet: work.ReasonConstraintUnmet, module.ReasonEnded: work.ReasonModuleEnded,
	}[s.Reason]
	if !known {
		return work.EventSpec{}, false
	}
	reason, _ := work.ReasonOf(why)
	return work.EventSpec{Kind: reason.Kind, Reason: reason.Name, Object: "module/" + name, Message: s.Message, Last: now}, true
}

// asker asks a module for its own state. One of this process that doesn't run isn't asked.
func (p *phases) asker(modules []module.Descriptor, m clients) func(ctx context.Context, name string, spec *host.ModuleSpec) error {
	return func(ctx context.Context, name string, spec *host.ModuleSpec) error {
		for _, each := range modules {
			if each.Bus != name {
				continue
			}
			p.mu.Lock()
			state, here := p.of[each.Name]
			p.mu.Unlock()
			spec.Phase = string(module.Running)
			if here && state.Phase != module.Running {
				spec.Phase, spec.Reason = string(state.Phase), state.Reason
				return errors.Errorf("cannot ask it: it is %s: %s", state.Phase, state.Message)
			}
			if each.Ask != nil {
				return each.Ask(ctx, m.bus, spec)
			}
		}
		return nil
	}
}
