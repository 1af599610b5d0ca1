package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	manageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/croft-edge/croft/bootstrap/kubernetes/parts/kubernetes/internal/config"
)

// components are Kubernetes' components with their options. They run by the functions below Kubernetes' commands, not
// by these themselves: each command would take the process's signals for itself, so that nothing could stop in order.
type components struct {
	server  *apiserveroptions.ServerRunOptions
	manager *manageroptions.KubeControllerManagerOptions
	sched   *scheduleroptions.Options
}

// newComponents parses the flags of all components and applies what holds for the whole process: feature gates, which
// are those of all components together, and logging, which is the API server's.
func newComponents(c config.Config) (*components, error) {
	p := &components{server: apiserveroptions.NewServerRunOptions()}
	registry := p.server.GenericServerRunOptions.ComponentGlobalsRegistry

	flags := p.server.Flags()
	p.server.Flagz = flagz.NamedFlagSetsReader{FlagSets: flags}
	if err := parse("apiserver", flags, c.APIServerFlags()); err != nil {
		return nil, err
	}
	if err := registry.Set(); err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}

	var err error
	if p.manager, err = manageroptions.NewKubeControllerManagerOptions(); err != nil {
		return nil, fmt.Errorf("controller_manager: %w", err)
	}
	flags = p.manager.Flags(manager.KnownControllers(), manager.ControllersDisabledByDefault(), manager.ControllerAliases())
	p.manager.ParsedFlags = &flags
	if err := parseQuiet("controller_manager", flags, c.ControllerManagerFlags()); err != nil {
		return nil, err
	}
	if err := registry.Set(); err != nil {
		return nil, fmt.Errorf("controller_manager: %w", err)
	}

	p.sched = scheduleroptions.NewOptions()
	if err := parseQuiet("scheduler", *p.sched.Flags, c.SchedulerFlags()); err != nil {
		return nil, err
	}
	if err := registry.Set(); err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}

	gates := registry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(p.server.Logs, gates); err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	if mutable, ok := gates.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	registry.AddMetrics()
	// The components' own clients would log warnings about APIs that they know to be old.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	return p, nil
}

// parse parses a component's flags.
func parse(component string, sets cliflag.NamedFlagSets, args []string) error {
	all := pflag.NewFlagSet(component, pflag.ContinueOnError)
	all.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	all.Usage = func() {}
	for _, set := range sets.FlagSets {
		all.AddFlagSet(set)
	}
	if err := all.Parse(args); err != nil {
		return fmt.Errorf("%s: %w", component, err)
	}
	if all.NArg() > 0 {
		return fmt.Errorf("%s: takes no arguments, got %q", component, all.Args())
	}
	return nil
}

// parseQuiet parses the flags of a component that may not have any about logging.
func parseQuiet(component string, sets cliflag.NamedFlagSets, args []string) error {
	if err := parse(component, sets, args); err != nil {
		return err
	}
	var err error
	sets.FlagSet("logs").VisitAll(func(f *pflag.Flag) {
		if f.Changed && err == nil {
			err = fmt.Errorf("%s: --%s cannot be given: the process has one log, set by the flags of apiserver", component, f.Name)
		}
	})
	return err
}

// apiServer runs the API server until ctx is done.
func (p *components) apiServer(ctx context.Context) error {
	completed, err := p.server.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	return apiserver.Run(ctx, completed)
}

// controllerManager runs the controller manager until ctx is done. Its events are still written after that, until the
// controllers have stopped: that is why its configuration has another context.
func (p *components) controllerManager(ctx context.Context) error {
	c, err := p.manager.Config(context.WithoutCancel(ctx), manager.KnownControllers(), manager.ControllersDisabledByDefault(),
		manager.ControllerAliases())
	if err != nil {
		return err
	}
	return manager.Run(ctx, c.Complete())
}

// scheduler runs the scheduler until ctx is done.
func (p *components) scheduler(ctx context.Context) error {
	c, sched, err := scheduler.Setup(ctx, p.sched)
	if err != nil {
		return err
	}
	return scheduler.Run(ctx, c, sched)
}
