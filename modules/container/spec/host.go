package spec

import specs "github.com/opencontainers/runtime-spec/specs-go"

// Host is what the machine can hold a container to.
type Host struct {
	// Cgroup is the version in use, 1 or 2.
	Cgroup int
	// CPU, Memory, PIDs, Swap, IOWeight and Devices say which limits hold: each
	// was tried.
	CPU, Memory, PIDs, Swap, IOWeight, Devices bool
	// CgroupNamespace, Seccomp and AppArmor say what the kernel has; AppArmor
	// that a profile can be loaded, too.
	CgroupNamespace, Seccomp, AppArmor bool
	// Rlimits are this process's: no container gets a higher hard one.
	Rlimits []specs.POSIXRlimit
	// OOMScore is this process's oom_score_adj: containers go before it.
	OOMScore int
}

// Missing are the limits and means that this machine can't hold, in words.
func (h Host) Missing() []string {
	var out []string
	for _, m := range []struct {
		has  bool
		name string
	}{
		{h.CPU, "cpu"}, {h.Memory, "memory"}, {h.Swap, "swap"}, {h.PIDs, "pids"},
		{h.IOWeight, "io weight"}, {h.Devices, "devices"}, {h.Seccomp, "seccomp"}, {h.AppArmor, "apparmor"},
	} {
		if !m.has {
			out = append(out, m.name)
		}
	}
	return out
}
