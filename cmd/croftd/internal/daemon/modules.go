package daemon

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/plane"
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
		Modules: own, Off: closed(d.Process, d.settings), Host: d.host(), Facts: module.ReadFacts, Watcher: d.phases, Log: d.Log,
		Backoff: backoff.Backoff{Base: time.Second, Max: longestAway},
	})
	if err != nil {
		return err
	}
	d.settings.modules = supervisor
	parts.Start(supervise.Part{Name: "modules", Again: true, Run: supervisor.Run, Within: module.StopTimeout})
	return nil
}

// longestAway is the longest pause between two attempts to open a module.
const longestAway = 15 * time.Second

// closed are the modules that are switched off and not opened yet: the engine has those opened that its workloads need. A module that is a
// process of its own can't be opened by the engine: its operator ends the process.
func closed(process string, s *settings) []string {
	if process != module.Whole {
		return nil
	}
	return s.off()
}

// phases are the phases of the node's modules.
type phases struct {
	mu sync.Mutex
	// of has the modules of this process, absent those of others that don't run and say so.
	of, absent map[string]module.State
	// changed is called after each change of a module's state.
	changed func(name string, s module.State)
}

func newPhases() *phases {
	return &phases{of: map[string]module.State{}, absent: map[string]module.State{}, changed: func(string, module.State) {}}
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

// elsewhere notes what a module of another process says of its phase. While it is opened, that it wasn't stays known.
func (p *phases) elsewhere(name string, s module.State) {
	if s.Phase == module.Loading {
		return
	}
	p.mu.Lock()
	before := p.absent[name]
	if s.Phase == module.Running {
		delete(p.absent, name)
	} else {
		p.absent[name] = s
	}
	changed := p.changed
	p.mu.Unlock()
	if s.Phase != module.Running && s != before {
		changed(name, s)
	}
}

// asker asks a module for its own state. One that doesn't run isn't asked, or says so in its process.
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
				if state.Reason == module.ReasonConstraintUnmet {
					askKernel(ctx, each, m, spec)
				}
				return notAsked(state)
			}
			if here {
				spec.Opened = state.Since.UTC()
			}
			if each.Ask == nil {
				return nil
			}
			err := each.Ask(ctx, m.bus, spec)
			if err == nil {
				askKernel(ctx, each, m, spec)
			}
			if here {
				return err
			}
			return p.explain(ctx, each, m, spec, err)
		}
		return nil
	}
}

// explain asks a module of another process that didn't answer for the reason.
func (p *phases) explain(ctx context.Context, of module.Descriptor, m clients, spec *host.ModuleSpec, failure error) error {
	if failure == nil {
		p.elsewhere(of.Name, module.State{Phase: module.Running})
		return nil
	}
	a, err := stubs.NewPhaseStub(m.bus, of.Bus).Phase(ctx)
	if err != nil {
		return failure // nobody answers for it
	}
	is := module.State{Phase: module.Phase(a.Phase), Reason: a.Reason, Message: a.Message}
	p.elsewhere(of.Name, is)
	if is.Phase == module.Running {
		return failure
	}
	spec.Phase, spec.Reason = a.Phase, a.Reason
	if is.Reason == module.ReasonConstraintUnmet {
		askKernel(ctx, of, m, spec)
	}
	return notAsked(is)
}

// kernelTime is how long a module may take to say what it lacks of the kernel, which it has at hand.
const kernelTime = 500 * time.Millisecond

// askKernel asks a module what it lacks of the kernel. A process of an older croft doesn't answer that, which is no fault.
func askKernel(ctx context.Context, of module.Descriptor, m clients, spec *host.ModuleSpec) {
	if !of.Kernel {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, kernelTime)
	defer cancel()
	if lacks, err := stubs.NewKernelStub(m.bus, of.Bus).Lacks(ctx); err == nil {
		spec.Kernel = &lacks
	}
}

// notAsked is why a module that doesn't run isn't asked.
func notAsked(is module.State) error {
	if is.Message == "" {
		return errors.Errorf("cannot ask it: it is %s", is.Phase)
	}
	return errors.Errorf("cannot ask it: it is %s: %s", is.Phase, is.Message)
}

// watchModules is the controller that asks the modules for their states, and opens and closes those that an operator may switch off.
func watchModules(d *daemon, m clients, changed kick) *plane.Modules {
	out := &plane.Modules{Poke: changed.kick, Ask: d.phases.asker(d.Modules, m), Log: d.Log}
	byBus := map[string]string{}
	for _, each := range d.Modules {
		out.Names = append(out.Names, each.Bus)
		byBus[each.Bus] = each.Name
	}
	out.Off = func(name string) bool { return slices.Contains(d.settings.off(), byBus[name]) }
	out.Switch = func(name string, on bool) {
		if here := d.settings.modules; here != nil {
			_ = here.Switch(byBus[name], on) // it fails for a module of another process, which its operator ends
		}
	}
	return out
}

// needs are the modules, on the bus, that workloads of each type need and an operator may switch off.
func needs(all []module.Descriptor) map[workload.Type][]string {
	out := map[workload.Type][]string{}
	for _, each := range all {
		for _, t := range each.Serves {
			out[t] = append(out[t], each.Bus)
		}
	}
	return out
}
