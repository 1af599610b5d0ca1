package plane

import (
	"context"
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
	// Ask asks the module of that name, and fills its members of the spec. It has to return when ctx is done.
	Ask func(ctx context.Context, name string, spec *host.ModuleSpec) error
	Log zerolog.Logger
}

// The pauses between two questions to a module that answers, and to one that doesn't; the time for an answer; and how
// many modules are asked at a time.
const (
	askEvery     = 10 * time.Second
	askAgain     = 500 * time.Millisecond
	askTimeout   = 2 * time.Second
	askedAtATime = 16
)

// Name implements controller.QController.
func (m Modules) Name() string { return "Modules" }

// Settings implements controller.QController.
func (m Modules) Settings() controller.QSettings {
	return controller.QSettings{
		Inputs:      []controller.Input{input(&host.ModuleConfig{}, controller.InputQPrimary)},
		Outputs:     []controller.Output{{Type: host.ModulesType, Kind: controller.OutputExclusive}},
		Concurrency: optional.Some[uint](askedAtATime),
	}
}

// MapInput implements controller.QController.
func (m Modules) MapInput(context.Context, *zap.Logger, controller.QRuntime, controller.ReducedResourceMetadata) ([]resource.Pointer, error) {
	return nil, nil
}

// Reconcile implements controller.QController.
func (m Modules) Reconcile(ctx context.Context, _ *zap.Logger, r controller.QRuntime, ptr resource.Pointer) error {
	name := ptr.ID()
	asked, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	spec := host.ModuleSpec{Name: name}
	err := guarded(m.Log, "status of "+name, func() error { return m.Ask(asked, name, &spec) })
	if ctx.Err() != nil {
		return nil
	}
	running := resources.Is(host.Running, "Answers", "")
	if err != nil {
		spec.Error = err.Error()
		running = resources.Not(host.Running, "NoAnswer", spec.Error)
	}
	written := safe.WriterModify(ctx, r, host.NewModule(host.ModuleSpec{Name: name}), func(is *host.Module) error {
		spec.Conditions = resources.Dated([]resources.Condition{running}, is.TypedSpec().Conditions, time.Now().UTC())
		*is.TypedSpec() = spec
		return nil
	})
	if written != nil {
		return errors.Wrapf(written, "cannot show the module %s", name)
	}
	if err != nil {
		return controller.NewRequeueInterval(backoff.Around(askAgain))
	}
	return controller.NewRequeueInterval(backoff.Around(askEvery))
}
