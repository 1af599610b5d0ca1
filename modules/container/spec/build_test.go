package spec_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/pkg/node"
)

// able is a host that holds everything, on cgroups of version 2.
func able() spec.Host {
	return spec.Host{
		Cgroup: 2, CPU: true, Memory: true, PIDs: true, Swap: true, IOWeight: true, Devices: true,
		CgroupNamespace: true, Seccomp: true, AppArmor: true, Profile: spec.ProfileName, SetRlimits: true,
		Masked: []string{"/sys/devices/system/cpu/cpu0/thermal_throttle"},
	}
}

func asked() spec.Config {
	return spec.Config{
		ID: "12-1", Root: "/run/c/root", UserNS: "/run/c/user", NetNS: "/run/c/net", Base: 0x70000000,
		Process:     spec.Process{Args: []string{"/serve"}, Env: []string{"PATH=/bin"}, Cwd: "/"},
		CgroupsPath: "/croft/12-1", Hostname: "web", CPU: 2, Memory: 1 << 30,
	}
}

func TestBuildStatesEverything(t *testing.T) {
	s, err := spec.Build(asked(), able())
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[specs.LinuxNamespaceType]string{}
	for _, n := range s.Linux.Namespaces {
		kinds[n.Type] = n.Path
	}
	if len(kinds) != 7 || kinds["user"] != "/run/c/user" || kinds["network"] != "/run/c/net" || kinds["pid"]+kinds["mount"]+kinds["ipc"]+kinds["uts"]+kinds["cgroup"] != "" {
		t.Errorf("namespaces: %v", kinds)
	}
	want := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 0x70000000, Size: 65536}}
	if !slices.Equal(s.Linux.UIDMappings, want) || !slices.Equal(s.Linux.GIDMappings, want) {
		t.Errorf("mappings: %v %v", s.Linux.UIDMappings, s.Linux.GIDMappings)
	}
	r := s.Linux.Resources
	if *r.CPU.Quota != 200_000 || *r.CPU.Period != 100_000 || *r.CPU.Shares != 2048 {
		t.Errorf("CPU: quota %d of %d, shares %d", *r.CPU.Quota, *r.CPU.Period, *r.CPU.Shares)
	}
	if *r.Memory.Limit != 1<<30 || *r.Memory.Swap != 1<<30 || *r.Pids.Limit != spec.DefaultPIDs || *r.BlockIO.Weight != spec.DefaultIOWeight {
		t.Errorf("memory %d, with swap %d, processes %d, weight %d", *r.Memory.Limit, *r.Memory.Swap, *r.Pids.Limit, *r.BlockIO.Weight)
	}
	if first := r.Devices[0]; first.Allow || first.Access != "rwm" || first.Type != "" {
		t.Errorf("the first rule for devices is %+v, want all denied", first)
	}
	if s.Process.ApparmorProfile != spec.ProfileName || !s.Process.NoNewPrivileges || s.Linux.RootfsPropagation != "rprivate" || s.Root.Readonly {
		t.Errorf("process %+v, propagation %s, root %+v", s.Process, s.Linux.RootfsPropagation, s.Root)
	}
	if !slices.Contains(s.Linux.MaskedPaths, "/sys/devices/system/cpu/cpu0/thermal_throttle") {
		t.Errorf("masked: %v", s.Linux.MaskedPaths)
	}
	if s.Hooks != nil || len(s.Linux.Devices) != 0 || s.Linux.MountLabel != "" {
		t.Errorf("there is more than croft asks for: %+v", s)
	}
}

// Asking for a limit that the kernel doesn't have would end the container's start.
func TestBuildSetsSupportedLimitsOnly(t *testing.T) {
	host := spec.Host{Cgroup: 1, CPU: true, Memory: true, PIDs: true, Seccomp: true}
	s, err := spec.Build(asked(), host)
	if err != nil {
		t.Fatal(err)
	}
	r := s.Linux.Resources
	if r.Memory.Swap != nil || r.BlockIO != nil || r.Devices != nil || s.Process.ApparmorProfile != "" || s.Process.Rlimits != nil {
		t.Errorf("asked for more than there is: %+v %+v", r, s.Process)
	}
	for _, n := range s.Linux.Namespaces {
		if n.Type == specs.CgroupNamespace {
			t.Error("asked for a cgroup namespace")
		}
	}
	if got, want := strings.Join(host.Missing(), ","), "swap,io weight,devices"; got != want {
		t.Errorf("missing is %q, want %q", got, want)
	}
	for name, change := range map[string]func(*spec.Host){
		"cpu": func(h *spec.Host) { h.CPU = false }, "memory": func(h *spec.Host) { h.Memory = false },
		"pids": func(h *spec.Host) { h.PIDs = false }, "seccomp": func(h *spec.Host) { h.Seccomp = false },
	} {
		bad := able()
		change(&bad)
		if _, err := spec.Build(asked(), bad); !errors.Is(err, node.Refused) || !strings.Contains(err.Error(), "can't hold "+name) {
			t.Errorf("without %s: %v, want it refused", name, err)
		}
	}
}

func TestRlimitsStayWithinTheHosts(t *testing.T) {
	host := able()
	host.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Hard: 1024, Soft: 512}, {Type: "RLIMIT_STACK", Hard: 1 << 20}, {Type: "RLIMIT_CORE", Hard: math.MaxUint64}}
	s, err := spec.Build(asked(), host)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]specs.POSIXRlimit{}
	for _, l := range s.Process.Rlimits {
		got[l.Type] = l
	}
	for _, want := range []specs.POSIXRlimit{
		{Type: "RLIMIT_NOFILE", Hard: 1024, Soft: 1024}, {Type: "RLIMIT_STACK", Hard: 1 << 20, Soft: 1 << 20},
		{Type: "RLIMIT_CORE"}, {Type: "RLIMIT_NPROC", Hard: spec.DefaultPIDs, Soft: spec.DefaultPIDs},
	} {
		if got[want.Type] != want {
			t.Errorf("%+v, want %+v", got[want.Type], want)
		}
	}
	if lines := host.SetLimits(); len(lines) != 0 {
		t.Errorf("limits are set where none need to be: %q", lines)
	}
	host.SetRlimits = false
	lines := strings.Join(host.SetLimits(), "\n")
	for _, line := range []string{"ulimit -S -n 1024 && ulimit -H -n 1024 || exit 1\n", "-c 0"} {
		if !strings.Contains(lines, line) {
			t.Errorf("%q lacks:\n%s", line, lines)
		}
	}
}

// A set that isn't given is empty for runc, in the profile of seccomp too.
func TestBuildWithoutCapabilities(t *testing.T) {
	config := asked()
	config.NoCapabilities = true
	s, err := spec.Build(config, able())
	if err != nil {
		t.Fatal(err)
	}
	if sets := s.Process.Capabilities; sets == nil || len(sets.Bounding)+len(sets.Permitted)+len(sets.Effective)+len(sets.Inheritable)+len(sets.Ambient) != 0 {
		t.Errorf("its capabilities are %+v", sets)
	}
	if p := spec.Exec(s, []string{"sh"}, false, nil); p.Capabilities == nil || len(p.Capabilities.Bounding) != 0 {
		t.Errorf("an exec's capabilities are %+v", p.Capabilities)
	}
	if s.Linux.Seccomp == nil || s.Linux.Seccomp.DefaultAction != specs.ActErrno || !s.Process.NoNewPrivileges {
		t.Errorf("seccomp is %+v, no new privileges %v", s.Linux.Seccomp, s.Process.NoNewPrivileges)
	}
}

func TestContainersGoBeforeTheAgent(t *testing.T) {
	for own, want := range map[int]int{-1000: -500, 0: 500, 300: 800, 900: 1000, 1000: 1000} {
		host := able()
		host.OOMScore = own
		s, err := spec.Build(asked(), host)
		if err != nil || *s.Process.OOMScoreAdj != want {
			t.Errorf("with the agent at %d it is %d, %v, want %d", own, *s.Process.OOMScoreAdj, err, want)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	long := strings.Repeat("x", 128<<10)
	for name, c := range map[string]struct {
		change func(*spec.Config)
		want   string
	}{
		"no ID":               {func(c *spec.Config) { c.ID = "" }, "it has no ID"},
		"relative root":       {func(c *spec.Config) { c.Root = "root" }, `its root is "root"`},
		"the node's root":     {func(c *spec.Config) { c.Root = "/" }, "other than /"},
		"the node's users":    {func(c *spec.Config) { c.UserNS = "" }, "user namespace"},
		"the node's network":  {func(c *spec.Config) { c.NetNS = "" }, "network namespace"},
		"the node's root ID":  {func(c *spec.Config) { c.Base = 0 }, "base"},
		"IDs that overflow":   {func(c *spec.Config) { c.Base = math.MaxUint32 - 100 }, "base"},
		"the node's cgroup":   {func(c *spec.Config) { c.CgroupsPath = "/" }, "cgroup"},
		"a systemd slice":     {func(c *spec.Config) { c.CgroupsPath = "system.slice:croft:1" }, "cgroup"},
		"hostname of spaces":  {func(c *spec.Config) { c.Hostname = "a b" }, "hostname"},
		"no CPU":              {func(c *spec.Config) { c.CPU = 0 }, "CPU is 0x0, must be at least one core"},
		"CPU that overflows":  {func(c *spec.Config) { c.CPU = math.MaxUint64 / 2 }, "CPU"},
		"no memory":           {func(c *spec.Config) { c.Memory = 0 }, "memory is 0x0, must be at least 1 MiB"},
		"memory overflows":    {func(c *spec.Config) { c.Memory = math.MaxUint64 }, "memory"},
		"processes overflow":  {func(c *spec.Config) { c.PIDs = math.MaxUint64 }, "processes"},
		"weight of 2000":      {func(c *spec.Config) { c.IOWeight = 2000 }, "IO weight"},
		"no program":          {func(c *spec.Config) { c.Process.Args = nil }, "no program"},
		"empty program":       {func(c *spec.Config) { c.Process.Args = []string{"", "x"} }, "no program"},
		"zero in an argument": {func(c *spec.Config) { c.Process.Args = []string{"a", "b\x00"} }, "no zero characters"},
		"a long argument":     {func(c *spec.Config) { c.Process.Args = []string{"a", long} }, "131072 bytes"},
		"many arguments":      {func(c *spec.Config) { c.Process.Args = slices.Repeat([]string{long[:100_000]}, 30) }, "are allowed"},
		"zero in a variable":  {func(c *spec.Config) { c.Process.Env = []string{"A=b\x00"} }, `"A"`},
		"no name":             {func(c *spec.Config) { c.Process.Env = []string{"=b"} }, "NAME=value"},
		"relative folder":     {func(c *spec.Config) { c.Process.Cwd = "x" }, "absolute path"},
		"a user too high":     {func(c *spec.Config) { c.Process.UID = 65536 }, "below 65536"},
		"a group too high":    {func(c *spec.Config) { c.Process.Groups = []uint32{65536} }, "below 65536"},
	} {
		config := asked()
		c.change(&config)
		_, err := spec.Build(config, able())
		if !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it invalid with %q", name, err, c.want)
		}
	}
}

// A refusal travels in results and logs: no value of the environment is in it.
func TestRefusalsKeepSecrets(t *testing.T) {
	config := asked()
	config.Process.Env = []string{"TOKEN=secret\x00"}
	_, err := spec.Build(config, able())
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the refusal is %v", err)
	}
}

func TestExecIsLikeTheFirstProcess(t *testing.T) {
	s, err := spec.Build(asked(), able())
	if err != nil {
		t.Fatal(err)
	}
	p := spec.Exec(s, []string{"sh"}, true, []string{"PATH=/sbin", "NEW=1"})
	if want := []string{"PATH=/sbin", "NEW=1", "TERM=xterm"}; !slices.Equal(p.Env, want) || !p.Terminal || !slices.Equal(p.Args, []string{"sh"}) {
		t.Errorf("exec: %+v, want the environment %q", p, want)
	}
	if again := spec.Exec(s, []string{"sh"}, true, []string{"TERM=dumb"}); !slices.Equal(again.Env, []string{"PATH=/bin", "TERM=dumb"}) {
		t.Errorf("exec: %q", again.Env)
	}
	if p.Capabilities != s.Process.Capabilities || !p.NoNewPrivileges || p.ApparmorProfile != spec.ProfileName || p.OOMScoreAdj != s.Process.OOMScoreAdj {
		t.Errorf("exec: %+v", p)
	}
	if s.Process.Terminal || !slices.Equal(s.Process.Env, []string{"PATH=/bin"}) || s.Process.Args[0] != "/serve" {
		t.Errorf("it changed the first process: %+v", s.Process)
	}
}
