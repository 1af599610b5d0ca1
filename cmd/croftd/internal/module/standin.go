package module

import (
	"context"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/supervise"
)

// standIn answers the calls of a module that doesn't run with the reason why, so that nobody waits for an answer that can't
// come.
type standIn struct {
	leave context.CancelFunc
	done  chan struct{}
}

// standInWorkers are enough for answers that wait for nothing.
const standInWorkers = 1

// fill has the calls of a module answered, unless they are already.
func (s *Supervisor) fill(m *supervised) {
	if m.standIn != nil || len(m.Objects) == 0 {
		return
	}
	server, err := bus.NewServer(s.cfg.Host.Bus, m.Bus, bus.Options{Log: s.cfg.Log, Workers: standInWorkers})
	for _, id := range m.Objects {
		if err == nil {
			err = bus.Refuse(server, id, func() error { return s.reason(m) })
		}
	}
	if err == nil {
		err = s.phase(m)(server)
	}
	if err == nil && m.Kernel {
		err = servesKernel(constraintsOf{s, m})(server)
	}
	if err != nil {
		s.cfg.Log.Error().Str("module", m.Name).Err(err).Msg("cannot answer for a module that doesn't run")
		return
	}
	ctx, leave := context.WithCancel(context.Background())
	m.standIn = &standIn{leave: leave, done: make(chan struct{})}
	go func() {
		defer close(m.standIn.done)
		_ = supervise.Guard(s.cfg.Log, m.Name, func() error { return server.Run(ctx) })
	}()
}

// phase is the object that tells a module's phase, to the node's state in another process.
func (s *Supervisor) phase(m *supervised) Object {
	return Serves(node.PhaseObject, node.PhaseVersion, stubs.PhaseMethods(phaseOf{s, m}))
}

type phaseOf struct {
	in     *Supervisor
	module *supervised
}

// Phase implements node.Phase.
func (p phaseOf) Phase() (node.ModulePhase, error) {
	is, _ := p.in.State(p.module.Name)
	return node.ModulePhase{Phase: string(is.Phase), Reason: is.Reason, Message: is.Message}, nil
}

// constraintsOf are what a module lacks of the kernel that isn't opened because of that.
type constraintsOf struct {
	in     *Supervisor
	module *supervised
}

// Lacks implements node.Kernel.
func (c constraintsOf) Lacks() (node.KernelState, error) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	out := node.KernelState{Tried: true, Lacks: []node.KernelLack{}}
	for _, u := range c.module.unmet {
		if u.Feature != "" {
			out.Lacks = append(out.Lacks, node.KernelLack{Feature: u.Feature, State: node.KernelMissing, Why: u.String(), Effect: "module " + c.module.Name + " doesn't run"})
		}
	}
	return out, nil
}

// fillAfter is fill after a module's failure. One that is busy runs in another process, which answers its calls: answers of this
// process would take calls away from it.
func (s *Supervisor) fillAfter(m *supervised, err error) {
	if node.KindOf(err) == node.Busy {
		m.vacate()
		return
	}
	s.fill(m)
}

// vacate ends the answers of fill. It returns when the last one is given.
func (m *supervised) vacate() {
	if m.standIn == nil {
		return
	}
	m.standIn.leave()
	<-m.standIn.done
	m.standIn = nil
}

// reason is why a module doesn't run, for its callers, who may try again.
func (s *Supervisor) reason(m *supervised) error {
	is, _ := s.State(m.Name)
	return node.Errorf(node.Transient, "module %s doesn't run: it is %s: %s", m.Name, is.Phase, is.Message)
}
