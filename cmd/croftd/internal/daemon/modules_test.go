package daemon

import (
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/module"
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
