package projects

import (
	"slices"
	"testing"

	"github.com/croft-edge/croft/pkg/nocloud"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestViewOfAVM(t *testing.T) {
	for name, c := range map[string]struct {
		view nodeView
		want string
	}{
		"booting":     {nodeView{Reached: true, VM: &nodeapi.VM{State: node.VMRunning, Accelerator: "kvm"}}, "booting"},
		"ready":       {nodeView{Reached: true, VM: &nodeapi.VM{State: node.VMRunning, Accelerator: "tcg", Guest: nocloud.Ready}}, "ready, emulated"},
		"not ready":   {nodeView{Reached: true, VM: &nodeapi.VM{State: node.VMRunning, Guest: "waits for 10.1.2.3"}}, "not ready: waits for 10.1.2.3"},
		"has crashed": {nodeView{Reached: true, VM: &nodeapi.VM{State: node.VMWaiting, Restarts: 2, Ended: 1, Cause: "it needed more memory"}}, "waiting, restarted 2 times, it needed more memory"},
		"none yet":    {nodeView{Reached: true}, "the node has no VM yet"},
		"unreached":   {nodeView{}, "node not reached"},
	} {
		if got := c.view.text(workload.TypeKubernetes); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestLastLogOfAView(t *testing.T) {
	lines := []string{"a", "b"}
	for name, c := range map[string]struct {
		view *nodeView
		want []string
	}{
		"none":        {nil, nil},
		"nothing":     {&nodeView{}, nil},
		"a VM":        {&nodeView{VM: &nodeapi.VM{LastLog: lines}}, lines},
		"a container": {&nodeView{Container: &nodeapi.Container{LastLog: lines}}, lines},
	} {
		if got := c.view.lastLog(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
