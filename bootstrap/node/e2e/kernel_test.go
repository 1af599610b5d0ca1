//go:build boot

package e2e_test

import (
	"strconv"
	"strings"
)

// fits holds what only a booted node can show of the image's kernel: it lacks nothing of containers and networks, WireGuard among it, and the tenant's
// container has AppArmor's profile in force and a control group of version 2.
func (st *story) fits() {
	st.Helper()
	is, err := st.n.hand.status()
	st.must(err)
	asked := map[string]bool{}
	for _, m := range is.Modules {
		if m.Kernel == nil {
			continue
		}
		asked[m.Name] = m.Kernel.Tried
		for _, l := range m.Kernel.Lacks {
			st.Logf("the kernel lacks, for module %s: %s (%s): %s", m.Name, l.Feature, l.State, l.Why)
			if m.Name == "container" || m.Name == "network" {
				st.Errorf("the image's kernel lacks %s", l.Feature)
			}
		}
	}
	for _, name := range []string{"container", "network", "storage", "vmd"} {
		if !asked[name] {
			st.Errorf("status doesn't say what module %s lacks of the kernel: %v", name, asked)
		}
	}
	p, _ := st.n.hand.the("server")
	if profile := st.n.hand.file("/proc/" + strconv.Itoa(p.PID) + "/attr/current"); !strings.Contains(profile, "(enforce)") {
		st.Errorf("the container runs with AppArmor's profile %q, want one that is enforced", profile)
	}
	if group := st.n.hand.file("/proc/" + strconv.Itoa(p.PID) + "/cgroup"); !strings.HasPrefix(group, "0::/") || strings.Count(group, "\n") > 1 {
		st.Errorf("the container's control groups are %q, want one of version 2", group)
	}
}
