package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/work"
)

// A module that doesn't run is an event with its reason; one that does is none. States from before somebody listens aren't lost.
func TestModulesThatDontRunAreEvents(t *testing.T) {
	p := newPhases()
	p.Changed("early", module.State{Phase: module.Failed, Reason: module.ReasonLoadFailed, Message: "no containerd"})
	var events []work.EventSpec
	now := time.Now()
	p.notify(func(name string, s module.State) {
		if e, happened := moduleEvent(name, s, now); happened {
			events = append(events, e)
		}
	})
	for _, s := range []module.State{
		{Phase: module.Loading}, {Phase: module.Running}, {Phase: module.Disabled, Reason: module.ReasonSwitchedOff},
		{Phase: module.Pending, Reason: module.ReasonConstraintUnmet, Message: "no cgroups"}, {Phase: module.Failed, Reason: module.ReasonEnded, Message: "it ended"},
	} {
		p.Changed("late", s)
	}
	want := []work.EventSpec{
		{Kind: work.Warning, Reason: "LoadFailed", Object: "module/early", Message: "no containerd", Last: now},
		{Kind: work.Warning, Reason: "ConstraintUnmet", Object: "module/late", Message: "no cgroups", Last: now},
		{Kind: work.Warning, Reason: "ModuleEnded", Object: "module/late", Message: "it ended", Last: now},
	}
	if len(events) != len(want) {
		t.Fatalf("%+v, want %+v", events, want)
	}
	for i := range want {
		if events[i] != want[i] {
			t.Errorf("%+v, want %+v", events[i], want[i])
		}
	}
}

// phase is what a module says of itself.
type phase struct{ is node.ModulePhase }

func (p phase) Phase() (node.ModulePhase, error) { return p.is, nil }

// The state of a module of another process is known from that process while the module doesn't run; it is an event once, until the module has run.
func TestAModuleOfAnotherProcessSaysWhyItDoesntRun(t *testing.T) {
	b := bus.NewInProcess()
	defer func() { _ = b.Close() }()
	client := bus.NewClient(b, bus.Options{})
	defer func() { _ = client.Close() }()
	away := errors.New("it doesn't answer")
	answer := away
	p := newPhases()
	var told []module.State
	p.notify(func(_ string, s module.State) { told = append(told, s) })
	ask := p.asker([]module.Descriptor{{Name: "one", Bus: "oned", Kernel: true, Ask: func(context.Context, zbus.Client, *host.ModuleSpec) error { return answer }}}, clients{bus: client})
	lacks := ""
	is := func(phase, reason string, failure string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var spec host.ModuleSpec
		err := ask(ctx, "oned", &spec)
		if spec.Phase != phase || spec.Reason != reason || fmt.Sprint(err) != failure {
			t.Errorf("%s %s %v, want %s %s %s", spec.Phase, spec.Reason, err, phase, reason, failure)
		}
		switch {
		case lacks == "" && spec.Kernel != nil:
			t.Errorf("a module that doesn't tell lacks %+v of the kernel", *spec.Kernel)
		case lacks != "" && (spec.Kernel == nil || len(spec.Kernel.Lacks) != 1 || spec.Kernel.Lacks[0].Feature != lacks):
			t.Errorf("it lacks %+v of the kernel, want %s", spec.Kernel, lacks)
		}
	}
	serve := func(is node.ModulePhase, tells bool) (end func()) {
		t.Helper()
		server, err := bus.NewServer(b, "oned", bus.Options{Log: zerolog.Nop(), Workers: 1})
		if err == nil {
			err = bus.Register[node.Phase](server, bus.Object(node.PhaseObject, node.PhaseVersion), phase{is})
		}
		if err == nil && tells {
			err = bus.Register[node.Kernel](server, bus.Object(node.KernelObject, node.KernelVersion), telling{})
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- server.Run(ctx) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	for _, tells := range []bool{true, false} { // an older croft doesn't
		if lacks = ""; tells {
			lacks = "btrfs"
		}
		end := serve(node.ModulePhase{Phase: "Pending", Reason: module.ReasonConstraintUnmet, Message: "no btrfs"}, tells)
		is("Pending", "ConstraintUnmet", "cannot ask it: it is Pending: no btrfs")
		is("Pending", "ConstraintUnmet", "cannot ask it: it is Pending: no btrfs")
		end()
		end = serve(node.ModulePhase{Phase: "Running"}, tells)
		wanted := lacks
		lacks = ""
		is("Running", "", "it doesn't answer") // it is there, and fails
		answer, lacks = nil, wanted
		is("Running", "", "<nil>")
		answer = away
		end()
	}
	want := module.State{Phase: module.Pending, Reason: module.ReasonConstraintUnmet, Message: "no btrfs"}
	if !slices.Equal(told, []module.State{want, want}) {
		t.Errorf("told were %+v", told)
	}
}

// telling is a module that lacks something of the kernel.
type telling struct{}

// Lacks implements node.Kernel.
func (telling) Lacks() (node.KernelState, error) {
	return node.KernelState{Tried: true, Lacks: []node.KernelLack{{Feature: "btrfs", State: node.KernelMissing}}}, nil
}
