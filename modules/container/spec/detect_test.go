package spec_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/modules/container/spec"
)

// machine is a tree of files that look like a machine's.
type machine struct {
	t    *testing.T
	dir  string
	made []string
}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, dir: t.TempDir()}
	m.file("proc/self/oom_score_adj", "-900\n")
	m.file("proc/self/status", "Name:\tcroftd\nCapEff:\t000001ffffffffff\n")
	m.file("proc/self/ns/cgroup", "")
	m.file("proc/sys/kernel/seccomp/actions_avail", "kill_process kill_thread trap errno trace log allow\n")
	return m
}

func (m *machine) file(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// detect finds out about the machine: its cgroups are born with those files.
func (m *machine) detect(files ...string) spec.Host {
	m.t.Helper()
	mkdir := func(dir string) error {
		m.made = append(m.made, strings.TrimPrefix(dir, m.dir))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		// A cgroup goes with its files by rmdir; these go before.
		m.t.Cleanup(func() { os.RemoveAll(dir) })
		for _, name := range files {
			if err := os.Symlink(filepath.Join(m.dir, "written", name), filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range files {
		m.file("written/"+name, "")
	}
	remove := func(dir string) error { return os.RemoveAll(dir) }
	host, err := spec.Detect(spec.Probe{Cgroups: m.dir + "/cgroup", Proc: m.dir + "/proc", Sys: m.dir + "/sys"}.WithCgroups(mkdir, remove, nil))
	if err != nil {
		m.t.Fatal(err)
	}
	for _, dir := range m.made {
		if _, err := os.Lstat(m.dir + dir); !os.IsNotExist(err) {
			m.t.Errorf("the cgroup %s is left", dir)
		}
	}
	return host
}

func (m *machine) wrote(file, want string) {
	m.t.Helper()
	got, err := os.ReadFile(filepath.Join(m.dir, file))
	if err != nil || string(got) != want {
		m.t.Errorf("%s: %q, %v, want %q", file, got, err, want)
	}
}

func TestDetectVersion2(t *testing.T) {
	m := newMachine(t)
	m.file("cgroup/cgroup.controllers", "cpuset cpu io memory pids rdma\n")
	m.file("cgroup/cgroup.subtree_control", strings.Repeat(" ", 20))
	host := m.detect("cpu.max", "cpu.weight", "memory.max", "memory.swap.max", "pids.max", "io.weight")
	if host.Cgroup != 2 || !host.CPU || !host.Memory || !host.Swap || !host.PIDs || !host.IOWeight {
		t.Errorf("found %+v", host)
	}
	if host.Devices {
		t.Error("a device filter was attached to a folder that is no cgroup")
	}
	if !host.CgroupNamespace || !host.Seccomp || !host.SetRlimits || host.OOMScore != -900 {
		t.Errorf("found %+v", host)
	}
	m.wrote("written/memory.max", "67108864")
	m.wrote("written/io.weight", "default 100")
	if got, want := host.Missing(), []string{"devices"}; !slices.Equal(got, want) {
		t.Errorf("missing: %v, want %v", got, want)
	}
	if len(m.made) != 1 {
		t.Errorf("made %v, want one cgroup", m.made)
	}
}

func TestDetectVersion2WithLess(t *testing.T) {
	m := newMachine(t)
	m.file("cgroup/cgroup.controllers", "cpu memory\n")
	m.file("proc/self/status", "CapEff:\t000001fffeffffff\n")
	m.file("proc/sys/kernel/seccomp/actions_avail", "")
	host := m.detect("cpu.max", "cpu.weight", "memory.max")
	if host.CPU != true || host.Swap || host.PIDs || host.IOWeight || host.Seccomp || host.SetRlimits {
		t.Errorf("found %+v", host)
	}
	if got, want := strings.Join(host.Missing(), ","), "swap,pids,io weight,devices,seccomp"; got != want {
		t.Errorf("missing: %s, want %s", got, want)
	}
}

func TestDetectVersion1(t *testing.T) {
	m := newMachine(t)
	for _, controller := range []string{"cpu", "memory", "pids", "blkio"} {
		m.file("cgroup/"+controller+"/cgroup.procs", "")
	}
	host := m.detect("cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.shares", "memory.limit_in_bytes", "pids.max", "blkio.weight")
	if host.Cgroup != 1 || !host.CPU || !host.Memory || !host.PIDs || !host.IOWeight || host.Swap || host.Devices {
		t.Errorf("found %+v", host)
	}
}

func TestDetectAppArmorAndThrottles(t *testing.T) {
	m := newMachine(t)
	m.file("sys/module/apparmor/parameters/enabled", "Y\n")
	m.file("sys/kernel/security/apparmor/profiles", "")
	m.file("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n")
	m.file("sys/devices/system/cpu/cpu11/thermal_throttle/core_throttle_count", "3\n")
	m.file("sys/devices/system/cpu/cpufreq/thermal_throttle", "")
	host := m.detect()
	if !host.AppArmor || host.NoAppArmor != "" || host.Profile != "" {
		t.Errorf("AppArmor %v (%s), profile %q before one is loaded", host.AppArmor, host.NoAppArmor, host.Profile)
	}
	want := []string{"/sys/devices/system/cpu/cpu0/thermal_throttle", "/sys/devices/system/cpu/cpu11/thermal_throttle"}
	if !slices.Equal(host.Masked, want) {
		t.Errorf("masked: %v, want %v", host.Masked, want)
	}
}

// A machine whose kernel has AppArmor, but that can load no profile, runs containers without one, and says so.
func TestDetectAppArmorThatIsNotThere(t *testing.T) {
	whole := map[string]string{"sys/module/apparmor/parameters/enabled": "Y\n", "sys/kernel/security/apparmor/profiles": ""}
	for name, c := range map[string]struct {
		without string
		parser  error
		missing string
	}{
		"its parser":     {"", errors.New("no apparmor_parser"), "AppArmor (no apparmor_parser)"},
		"its folder":     {"sys/kernel/security/apparmor/profiles", nil, "AppArmor (no "},
		"both":           {"sys/kernel/security/apparmor/profiles", errors.New("no apparmor_parser"), "AppArmor (no "},
		"AppArmor":       {"sys/module/apparmor/parameters/enabled", nil, ""},
		"any, or parser": {"sys/module/apparmor/parameters/enabled", errors.New("no apparmor_parser"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			for file, text := range whole {
				if file != c.without {
					m.file(file, text)
				}
			}
			host, err := spec.Detect(spec.Probe{Cgroups: m.dir + "/cgroup", Proc: m.dir + "/proc", Sys: m.dir + "/sys"}.WithCgroups(nil, nil, c.parser))
			if err != nil || host.AppArmor {
				t.Errorf("AppArmor %v, %v", host.AppArmor, err)
			}
			missing := host.Missing()
			i := slices.IndexFunc(missing, func(one string) bool { return strings.HasPrefix(one, "AppArmor") })
			if (i >= 0) != (c.missing != "") || i >= 0 && !strings.HasPrefix(missing[i], c.missing) {
				t.Errorf("missing: %q, want %q among them", missing, c.missing)
			}
			if same, err := spec.LoadProfile(host); err != nil || same.Profile != "" {
				t.Errorf("profile %q, %v on a machine that can load none", same.Profile, err)
			}
		})
	}
}

// The machine of these tests is a real one, whichever version it has.
func TestDetectOnThisMachine(t *testing.T) {
	before := probes(t)
	host, err := spec.Detect(spec.Probe{})
	if err != nil {
		t.Fatal(err)
	}
	if !host.CPU || !host.Memory || !host.PIDs || !host.Devices || !host.Seccomp || !host.CgroupNamespace {
		t.Errorf("found %+v", host)
	}
	if len(host.Rlimits) != 9 {
		t.Errorf("found %d rlimits", len(host.Rlimits))
	}
	if after := probes(t); len(after) > len(before) {
		t.Errorf("cgroups are left: %v", after)
	}
}

func probes(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"/sys/fs/cgroup/croft-probe-*", "/sys/fs/cgroup/*/croft-probe-*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	return out
}

// On version 2 devices are kept away by a filter: tried on a real cgroup of
// that version, which this kernel has beside the others.
func TestDeviceFilter(t *testing.T) {
	top := "/sys/fs/cgroup"
	if _, err := os.Stat(top + "/unified"); err == nil {
		top += "/unified"
	}
	dir, err := os.MkdirTemp(top, "croft-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}()
	if err := spec.DeviceFilter(dir); err != nil {
		t.Error(err)
	}
	if err := spec.DeviceFilter(t.TempDir()); err == nil {
		t.Error("a filter was attached to a folder that is no cgroup")
	}
}
