package plane

import (
	"context"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/siderolabs/gen/optional"
	"go.uber.org/zap"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/resources/host"
)

// Modules is the controller that asks each module for its state, one by one and beside each other: one that hangs
// delays no other.
type Modules struct {
	// Names are the modules' names on the bus.
	Names []string
	// Poke has the modules' configuration looked at, after which they are asked.
	Poke func()
	// Ask asks the module of that name, and fills its members of the spec. It has to return when ctx is done.
	Ask func(ctx context.Context, name string, spec *host.ModuleSpec) error
	// Off reports whether the operator has switched a module off, Switch opens or closes it; neither waits. One that is
	// switched off is open as long as workloads need it, which its finalizers say.
	Off    func(name string) bool
	Switch func(name string, on bool)
	Log    zerolog.Logger

	mu sync.Mutex
	// again are closed, by module, when a question that began later is answered; poked counts the wishes for one.
	again map[string][]chan struct{}
	poked int
}

// AskNow has all modules asked, and returns once they have answered or failed to, or ctx is done.
func (m *Modules) AskNow(ctx context.Context) {
	var waits []chan struct{}
	m.mu.Lock()
	if m.again == nil {
		m.again = map[string][]chan struct{}{}
	}
	for _, name := range m.Names {
		answered := make(chan struct{})
		m.again[name] = append(m.again[name], answered)
		waits = append(waits, answered)
	}
	m.poked++
	m.mu.Unlock()
	m.Poke()
	for _, answered := range waits {
		select {
		case <-answered:
		case <-ctx.Done():
			return
		}
	}
}

// Again has all modules asked soon. It doesn't wait.
func (m *Modules) Again() {
	m.mu.Lock()
	m.poked++
	m.mu.Unlock()
	m.Poke()
}

// Poked counts how often all modules were to be asked: the state shows it with their configuration, which has them asked.
func (m *Modules) Poked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.poked
}

// take removes those who wait for an answer of a module.
func (m *Modules) take(name string) []chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.again[name]
	delete(m.again, name)
	return out
}

// The pauses between two questions to a module that answers, and to one that doesn't; the time for an answer; the age of figures that are
// shown anew; and how many modules are asked at a time.
const (
	askEvery     = 15 * time.Second
	askAgain     = 500 * time.Millisecond
	askTimeout   = 2 * time.Second
	figuresEvery = time.Minute
	askedAtATime = 16
)

// Name implements controller.QController.
func (m *Modules) Name() string { return "Modules" }

// Settings implements controller.QController.
func (m *Modules) Settings() controller.QSettings {
	return controller.QSettings{
		Inputs:      []controller.Input{input(&host.ModuleConfig{}, controller.InputQPrimary)},
		Outputs:     []controller.Output{{Type: host.ModulesType, Kind: controller.OutputExclusive}},
		Concurrency: optional.Some[uint](askedAtATime),
	}
}

// MapInput implements controller.QController.
func (m *Modules) MapInput(context.Context, *zap.Logger, controller.QRuntime, controller.ReducedResourceMetadata) ([]resource.Pointer, error) {
	return nil, nil
}

// Reconcile implements controller.QController.
func (m *Modules) Reconcile(ctx context.Context, _ *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	name := ptr.ID()
	waiting := m.take(name)
	for _, answered := range waiting {
		defer close(answered)
	}
	needed, err := needed(ctx, r, name)
	if err != nil {
		return err
	}
	off := m.Off(name)
	m.Switch(name, needed || !off)
	if off && !needed {
		return m.disabled(ctx, r, name)
	}
	asked, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	spec := host.ModuleSpec{Name: name}
	err = guarded(m.Log, "status of "+name, func() error { return m.Ask(asked, name, &spec) })
	if ctx.Err() != nil {
		return nil
	}
	running := resources.Is(host.Running, "Answers", "")
	if off {
		running = resources.Is(host.Running, "WaitsForWorkloads", "it is switched off, and closes when the last workload that needs it has left")
	}
	if err != nil {
		spec.Error = err.Error()
		switch {
		case spec.Phase == "" || spec.Phase == "Running":
			spec.Phase, spec.Reason = "Failed", "NoAnswer"
		case spec.Reason == "":
			spec.Reason = spec.Phase
		}
		running = resources.Not(host.Running, spec.Reason, spec.Error)
	}
	spec.Conditions = []resources.Condition{running}
	if written := m.write(ctx, r, spec, len(waiting) > 0); written != nil {
		return written
	}
	if err != nil {
		return controller.NewRequeueInterval(backoff.Around(askAgain))
	}
	return controller.NewRequeueInterval(backoff.Together(backoff.Around(askEvery)))
}

// disabled shows a module that is switched off.
func (m *Modules) disabled(ctx context.Context, r controller.QRuntime, name string) error {
	spec := host.ModuleSpec{Name: name, Phase: "Disabled", Reason: "SwitchedOff"}
	spec.Conditions = []resources.Condition{resources.Not(host.Running, spec.Reason, "it is switched off")}
	if err := m.write(ctx, r, spec, false); err != nil {
		return err
	}
	return controller.NewRequeueInterval(backoff.Together(backoff.Around(askEvery)))
}

// needed reports whether somebody holds a module.
func needed(ctx context.Context, r controller.Reader, name string) (bool, error) {
	is, err := safe.ReaderGetByID[*host.Module](ctx, r, name)
	if err != nil {
		return false, errors.Wrapf(ignoreMissing(err), "cannot read the module %s", name)
	}
	return !is.Metadata().Finalizers().Empty(), nil
}

// write shows a module. What changes only its figures is shown once they are a minute old, or when somebody waits for an answer: each
// change of a module has all of its things looked at.
func (m *Modules) write(ctx context.Context, r controller.QRuntime, spec host.ModuleSpec, waited bool) error {
	err := safe.WriterModify(ctx, r, host.NewModule(host.ModuleSpec{Name: spec.Name}), func(is *host.Module) error {
		now := time.Now()
		spec.Conditions = resources.Dated(spec.Conditions, is.TypedSpec().Conditions, now.UTC())
		if waited || now.Sub(is.Metadata().Updated()) >= figuresEvery || !spec.SameButFigures(*is.TypedSpec()) {
			*is.TypedSpec() = spec
		}
		return nil
	})
	return errors.Wrapf(err, "cannot show the module %s", spec.Name)
}
