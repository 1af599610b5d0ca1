package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/host"
)

// The section has a line for each lacking feature, and isn't there without one.
func TestKernelInTheStatus(t *testing.T) {
	shown := func(modules ...host.ModuleSpec) []string {
		var out []string
		writeKernel(func(cells ...string) { out = append(out, strings.Join(cells, "|")) }, modules)
		return out
	}
	if got := shown(host.ModuleSpec{Name: "identityd"}, host.ModuleSpec{Name: "storage", Kernel: &node.KernelState{Tried: true}}); len(got) != 0 {
		t.Errorf("a kernel with all is shown as %q", got)
	}
	got := shown(
		host.ModuleSpec{Name: "network", Kernel: &node.KernelState{Lacks: []node.KernelLack{{Feature: "WireGuard", State: node.KernelDegraded, Effect: "slower", Why: "no\nmodule"}}}},
		host.ModuleSpec{Name: "container", Kernel: &node.KernelState{Lacks: []node.KernelLack{{Feature: "io weights", State: node.KernelMissing, Effect: "slow", Why: "none"}}}},
	)
	want := []string{"", "KERNEL|MODULE|STATE|EFFECT|WHY", "WireGuard|network|degraded|slower|no module", "io weights|container|missing|slow|none"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
