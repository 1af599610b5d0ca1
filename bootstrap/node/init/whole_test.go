package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/guest/service"
	"github.com/croft-edge/croft/pkg/node"
)

func TestAModuleThatCantRunIsSeen(t *testing.T) {
	for _, c := range []struct {
		phase, reason string
		works         bool
	}{
		{"Running", "Answers", true}, {"Disabled", "SwitchedOff", true}, {"Pending", "ConstraintUnmet", true},
		{"Pending", "NotStarted", false}, {"Loading", "", false}, {"Failed", "LoadFailed", false}, {"", "", false},
	} {
		if err := works(node.ModulePhase{Phase: c.phase, Reason: c.reason}); (err == nil) != c.works {
			t.Errorf("a module that is %s for %s: %v", c.phase, c.reason, err)
		}
	}
}

// TestOneProgramThatIsntReadyIsSeen takes the readiness of each program away, and each program.
func TestOneProgramThatIsntReadyIsSeen(t *testing.T) {
	all := slices.Concat(early(), parts())
	var states []service.State
	for _, k := range all {
		states = append(states, service.State{Name: k.Name, Ready: true})
	}
	if err := allReady(states, all); err != nil {
		t.Fatal(err)
	}
	for i, k := range all {
		without := slices.Delete(slices.Clone(states), i, i+1)
		if err := allReady(without, all); err == nil || !strings.Contains(err.Error(), k.Name) {
			t.Errorf("without %s: %v", k.Name, err)
		}
		waits := slices.Clone(states)
		waits[i].Ready = false
		if err := allReady(waits, all); err == nil || !strings.Contains(err.Error(), k.Name) {
			t.Errorf("before %s is ready: %v", k.Name, err)
		}
	}
}
