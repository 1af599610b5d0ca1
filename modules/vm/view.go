package vm

import (
	"os"
	"time"

	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// Inspect implements node.VMs.
func (m *Module) Inspect(id string) (node.VMInfo, error) {
	r, err := m.find("inspect", id)
	return infoOf(r, m.folder.Of(r.Spec.ID)), err
}

// infoOf describes a VM, with these files, as it is now.
func infoOf(r machine.Record, at machine.Files) node.VMInfo {
	out := r.Info()
	switch r.Phase {
	case machine.Running:
		out.Drift = tapDrift(r.Spec.Tap)
	case machine.Waiting:
		if out.Drift = imageDrift(r.Spec); out.Drift == "" && configMissing(r, at) {
			out.Drift = "its config disk is gone"
		}
	}
	return out
}

// configMissing reports whether a VM's config disk isn't where it should be: its reservation makes it anew.
func configMissing(r machine.Record, at machine.Files) bool {
	_, err := os.Lstat(at.Config())
	return r.Configured && os.IsNotExist(err)
}

// imageDrift is why a VM that waits can't be started as it is recorded: a file of its image is gone, so it must be run again
// with the present image. A disk of its own that is gone is another matter: nothing takes its place.
func imageDrift(s node.VMSpec) string {
	files := []string{s.Kernel, s.Initrd}
	for _, d := range s.Disks {
		if d.ReadOnly {
			files = append(files, d.Path)
		}
	}
	for _, path := range files {
		if path == "" {
			continue
		}
		if _, err := os.Lstat(path); os.IsNotExist(err) {
			return "its image is gone: " + path
		}
	}
	return ""
}

// Exists implements node.VMs.
func (m *Module) Exists(id string) (bool, error) {
	if err := machine.CheckID("find", id); err != nil {
		return false, err
	}
	_, exists := m.table.read(id)
	return exists, nil
}

// List implements node.VMs.
func (m *Module) List() ([]node.VMInfo, error) {
	out := []node.VMInfo{}
	for _, r := range m.table.records() {
		out = append(out, infoOf(r, m.folder.Of(r.Spec.ID)))
	}
	return out, nil
}

// Paths returns the paths of the files that VMs have, and would be started again with: kernels, initrds and disks. It is
// false while the record of a VM can't be read.
func (m *Module) Paths() (paths []string, known bool) {
	known = true
	for _, r := range m.table.records() {
		known = known && r.Phase != machine.Lost
		paths = append(paths, r.Spec.Kernel, r.Spec.Initrd)
		for _, d := range r.Spec.Disks {
			paths = append(paths, d.Path)
		}
	}
	return paths, known
}

// Stats implements node.VMs.
func (m *Module) Stats(id string) (node.VMStats, error) {
	r, err := m.find("measure", id)
	if err != nil {
		return node.VMStats{}, err
	}
	if r.Phase != machine.Running {
		return node.VMStats{}, node.Errorf(node.Busy, "cannot measure VM %s: it is %s", id, r.Phase)
	}
	cpu, err := r.Process.CPU()
	if err != nil {
		return node.VMStats{}, node.Errorf(node.Busy, "cannot measure VM %s: it ends: %w", id, err)
	}
	group, err := cgroup.At(m.processes.cgroup(id))
	if err != nil {
		return node.VMStats{}, err
	}
	limit := group.Limits(cgroup.Limits{Memory: 1}).Memory // one that an earlier croft has started has another
	if limit == 0 {
		limit = memory(r)
	}
	return node.VMStats{ID: id, At: time.Now().UnixNano(), CPU: cpu, Memory: group.Memory(), MemoryLimit: limit}, nil
}

// Status implements node.VMs.
func (m *Module) Status() (node.VMStatus, error) {
	ctx, err := m.begin()
	if err != nil {
		return node.VMStatus{}, err
	}
	status := node.VMStatus{VMs: uint64(len(m.table.records()))}
	_, version, err := m.emulator.find(ctx)
	if err != nil {
		status.Error = err.Error()
		return status, nil
	}
	status.Emulator = version
	last := m.emulator.lastOutcome()
	status.Accelerator, status.Why = string(last.accelerator), last.why
	return status, nil
}

func (m *Module) find(what, id string) (machine.Record, error) {
	if err := machine.CheckID(what, id); err != nil {
		return machine.Record{}, err
	}
	r, exists := m.table.read(id)
	if !exists {
		return r, node.Errorf(node.NotExist, "cannot %s VM %s: there is none", what, id)
	}
	return r, nil
}
