package spec

import (
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/croft-edge/croft/pkg/node"
)

// Host describes the limits and controls that the machine can enforce. Detect fills it.
type Host struct {
	// Cgroup is the version in use, 1 or 2.
	Cgroup int
	// CPU, Memory, PIDs, Swap, IOWeight and Devices say which limits hold: each
	// was tried.
	CPU, Memory, PIDs, Swap, IOWeight, Devices bool
	// CgroupNamespace and Seccomp say whether the kernel has them; AppArmor also
	// that a profile can be loaded.
	CgroupNamespace, Seccomp, AppArmor bool
	// NoAppArmor is why no profile can be loaded although the kernel has AppArmor; otherwise empty.
	NoAppArmor string
	// Profile is the AppArmor profile that containers get, empty for none.
	Profile string
	// SetRlimits says that the runtime may set the limits of a container's
	// processes itself; Wrapper is for where it may not.
	SetRlimits bool
	// Rlimits are this process's: no container gets a higher hard one.
	Rlimits []specs.POSIXRlimit
	// OOMScore is this process's oom_score_adj: containers go before it.
	OOMScore int
	// Masked are paths of this machine that containers don't see, beside those
	// that none sees on any.
	Masked []string
}

// Missing are the limits that this machine can't hold, in words. AppArmor is one
// only where the kernel has it: other machines have other means, or do with the
// other controls.
func (h Host) Missing() []string {
	return without([]ability{
		{h.CPU, "cpu"},
		{h.Memory, "memory"},
		{h.Swap, "swap"},
		{h.PIDs, "pids"},
		{h.IOWeight, "io weight"},
		{h.Devices, "devices"},
		{h.Seccomp, "seccomp"},
		{h.NoAppArmor == "", "AppArmor (" + h.NoAppArmor + ")"},
	})
}

// enough refuses a machine that lacks a limit that every container needs.
// Devices aren't among them: a container has no means to make a device node.
func (h Host) enough() error {
	missing := without([]ability{{h.CPU, "cpu"}, {h.Memory, "memory"}, {h.PIDs, "pids"}, {h.Seccomp, "seccomp"}})
	if len(missing) == 0 {
		return nil
	}
	return node.Errorf(node.Refused, "cannot run containers on this machine: its kernel can't hold %s, must hold cpu, memory, pids and seccomp", strings.Join(missing, ", "))
}

type ability struct {
	has  bool
	name string
}

func without(all []ability) []string {
	var out []string
	for _, a := range all {
		if !a.has {
			out = append(out, a.name)
		}
	}
	return out
}
