package host_test

import (
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/resources/host"
)

// described is a module that has everything.
func described() host.ModuleSpec {
	return host.ModuleSpec{
		Name: "one", Phase: "Running", Conditions: []resources.Condition{resources.Is(host.Running, "Answers", "")},
		Storage: &host.Storage{Quota: "simple"}, Network: &node.NetworkStatus{Backend: "userspace", CarrierMemory: 1}, VM: &node.VMStatus{},
		Container: &node.ContainerStatus{LogCarrierMemory: 1, Missing: []string{"io"}}, Image: &node.ImageStatus{Used: 1}, VMImage: &node.VMImageStatus{},
	}
}

// TestSameButFigures holds that the figures that change by themselves are no difference, and that all else is one.
func TestSameButFigures(t *testing.T) {
	for name, change := range map[string]func(s *host.ModuleSpec){
		"nothing":             func(*host.ModuleSpec) {},
		"the wg carrier":      func(s *host.ModuleSpec) { s.Network.CarrierMemory++ },
		"the log carrier":     func(s *host.ModuleSpec) { s.Container.LogCarrierMemory++ },
		"images' file system": func(s *host.ModuleSpec) { s.Image.Used++ },
		"all of them": func(s *host.ModuleSpec) {
			s.Network.CarrierMemory, s.Container.LogCarrierMemory, s.Image.Used = 7, 8, 9
		},
		"an equal copy of them": func(s *host.ModuleSpec) { *s = s.DeepCopy() },
	} {
		s := described()
		change(&s)
		if !s.SameButFigures(described()) || !described().SameButFigures(s) {
			t.Errorf("%s: it is another one", name)
		}
	}
	for name, change := range map[string]func(s *host.ModuleSpec){
		"name":              func(s *host.ModuleSpec) { s.Name = "other" },
		"error":             func(s *host.ModuleSpec) { s.Error = "it hangs" },
		"phase":             func(s *host.ModuleSpec) { s.Phase = "Failed" },
		"reason":            func(s *host.ModuleSpec) { s.Reason = "NoAnswer" },
		"opened":            func(s *host.ModuleSpec) { s.Opened = time.Unix(1, 0) },
		"condition":         func(s *host.ModuleSpec) { s.Conditions[0].Status = resources.False },
		"state":             func(s *host.ModuleSpec) { s.State = "{}" },
		"quota":             func(s *host.ModuleSpec) { s.Storage.Quota = "qgroup" },
		"broken device":     func(s *host.ModuleSpec) { s.Storage.BrokenDevices = []node.BrokenDevice{{}} },
		"networks":          func(s *host.ModuleSpec) { s.Network.Networks++ },
		"carrier":           func(s *host.ModuleSpec) { s.Network.Carrier++ },
		"drift":             func(s *host.ModuleSpec) { s.Network.Drift = "a rule is gone" },
		"containers":        func(s *host.ModuleSpec) { s.Container.Containers++ },
		"containerd":        func(s *host.ModuleSpec) { s.Container.Error = "it doesn't answer" },
		"missing limits":    func(s *host.ModuleSpec) { s.Container.Missing = nil },
		"images":            func(s *host.ModuleSpec) { s.Image.Images++ },
		"size of images":    func(s *host.ModuleSpec) { s.Image.Size++ },
		"VMs":               func(s *host.ModuleSpec) { s.VM.VMs++ },
		"boot image":        func(s *host.ModuleSpec) { s.VMImage.Done++ },
		"no network at all": func(s *host.ModuleSpec) { s.Network = nil },
	} {
		s := described()
		change(&s)
		if s.SameButFigures(described()) || described().SameButFigures(s) {
			t.Errorf("%s: it counts as the same", name)
		}
	}
}
