package container

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/pkg/kernel"
)

// lacking are the features that a machine lacks, with the reasons.
func lacking(t *testing.T, all []kernel.Feature) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range all {
		if f.Name == "" || f.Effect == "" {
			t.Errorf("a feature without a name or an effect: %+v", f)
		}
		if err := f.Try(t.Context()); err != nil {
			name := f.Name
			if f.Degraded {
				name += " (degraded)"
			}
			out[name] = err.Error()
		}
	}
	return out
}

func TestControlsThatAMachineLacks(t *testing.T) {
	whole := func() spec.Host {
		return spec.Host{Cgroup: 2, CPU: true, Memory: true, PIDs: true, Swap: true, IOWeight: true, Devices: true, CgroupNamespace: true, Seccomp: true, AppArmor: true, Profile: "croft"}
	}
	for name, c := range map[string]struct {
		change func(h *spec.Host)
		want   string
	}{
		"nothing":           {func(*spec.Host) {}, ""},
		"version 2":         {func(h *spec.Host) { h.Cgroup, h.Swap, h.IOWeight = 1, false, false }, "control groups of version 2 (degraded),io weights,swap limits"},
		"what all need":     {func(h *spec.Host) { h.CPU, h.Memory, h.PIDs, h.Seccomp = false, false, false, false }, "cpu limits,memory limits,pids limits,seccomp filters"},
		"namespaces":        {func(h *spec.Host) { h.CgroupNamespace, h.Devices = false, false }, "control group namespaces (degraded),device filters"},
		"AppArmor":          {func(h *spec.Host) { h.AppArmor = false }, "AppArmor (degraded)"},
		"AppArmor's parser": {func(h *spec.Host) { h.AppArmor, h.NoAppArmor = false, "no apparmor_parser" }, "AppArmor"},
	} {
		t.Run(name, func(t *testing.T) {
			host := whole()
			c.change(&host)
			got := lacking(t, hostFeatures(host, func() (spec.Host, error) { return host, nil }))
			if names := strings.Join(slices.Sorted(maps.Keys(got)), ","); names != c.want {
				t.Errorf("lacking are %s, want %s", names, c.want)
			}
			if host.NoAppArmor != "" && got["AppArmor"] != host.NoAppArmor {
				t.Errorf("AppArmor is lacking because of %q", got["AppArmor"])
			}
			for lack, why := range lacking(t, hostFeatures(host, func() (spec.Host, error) { return whole(), nil })) {
				if !strings.HasPrefix(why, "it is there now: ") {
					t.Errorf("%s, which is there now, is lacking because of %q", lack, why)
				}
			}
			for lack, why := range lacking(t, hostFeatures(host, func() (spec.Host, error) { return spec.Host{}, errors.New("no cgroup") })) {
				if why != "no cgroup" {
					t.Errorf("%s can't be tried because of %q", lack, why)
				}
			}
		})
	}
}
