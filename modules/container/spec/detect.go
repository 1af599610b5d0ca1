package spec

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Probe says where Detect looks; empty fields mean the machine's own.
type Probe struct {
	// Cgroups is where the cgroup file systems are, Proc and Sys those two.
	Cgroups, Proc, Sys string

	// mkdir makes a cgroup and rmdir removes it, parser finds apparmor_parser;
	// tests have others.
	mkdir, rmdir func(dir string) error
	parser       func() error
}

func (p Probe) withDefaults() Probe {
	for _, place := range []struct {
		path     *string
		standard string
	}{{&p.Cgroups, "/sys/fs/cgroup"}, {&p.Proc, "/proc"}, {&p.Sys, "/sys"}} {
		if *place.path == "" {
			*place.path = place.standard
		}
	}
	if p.mkdir == nil {
		p.mkdir = func(dir string) error { return os.Mkdir(dir, 0o755) }
	}
	if p.rmdir == nil {
		p.rmdir = os.Remove
	}
	if p.parser == nil {
		p.parser = func() error { _, err := findParser(); return err }
	}
	return p
}

// Detect finds out which limits and controls this machine can enforce. It makes a
// cgroup, tries each limit in it, and removes it again. On version 2 it turns
// the controllers on at the top, as the runtime does with each container.
func Detect(p Probe) (Host, error) {
	p = p.withDefaults()
	var h Host
	if err := p.limits(&h); err != nil {
		return Host{}, err
	}
	h.CgroupNamespace = p.there(p.Proc, "self/ns/cgroup")
	h.Seccomp = strings.Contains(p.read(p.Proc, "sys/kernel/seccomp/actions_avail"), "errno")
	h.AppArmor, h.NoAppArmor = p.appArmor()
	h.SetRlimits = p.capable(unix.CAP_SYS_RESOURCE)
	score, err := strconv.Atoi(p.read(p.Proc, "self/oom_score_adj"))
	if err != nil {
		return Host{}, errors.Wrap(err, "cannot read this process's oom_score_adj")
	}
	h.OOMScore = score
	h.Rlimits, err = ownRlimits()
	if err != nil {
		return Host{}, err
	}
	h.Masked, err = p.throttles()
	return h, err
}

// appArmor reports whether a profile can be loaded; lack is why not, empty where the kernel has no AppArmor.
func (p Probe) appArmor() (usable bool, lack string) {
	switch {
	case p.read(p.Sys, "module/apparmor/parameters/enabled") != "Y":
		return false, ""
	case !p.there(p.Sys, appArmorFolder):
		// Such as in LXC and nspawn: the kernel is the machine's that these run on.
		return false, "no " + filepath.Join(p.Sys, appArmorFolder)
	case p.parser() != nil:
		return false, "no " + parserName
	}
	return true, ""
}

// capable reports whether this process has a capability of the whole machine.
func (p Probe) capable(capability int) bool {
	for line := range strings.Lines(p.read(p.Proc, "self/status")) {
		if mask, found := strings.CutPrefix(line, "CapEff:"); found {
			effective, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err == nil && effective>>capability&1 == 1
		}
	}
	return false
}

// throttles are files that count how often each CPU was too hot: a side channel to
// others' computations.
func (p Probe) throttles() ([]string, error) {
	found, err := filepath.Glob(filepath.Join(p.Sys, "devices/system/cpu/cpu[0-9]*/thermal_throttle"))
	if err != nil {
		return nil, errors.Wrap(err, "cannot list the CPUs")
	}
	for i, path := range found {
		found[i] = "/sys" + strings.TrimPrefix(path, p.Sys)
	}
	return found, nil
}

// read is a small file's text, empty when there is none.
func (p Probe) read(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (p Probe) there(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

func ownRlimits() ([]specs.POSIXRlimit, error) {
	var out []specs.POSIXRlimit
	for _, l := range []struct {
		name     string
		resource int
	}{
		{"RLIMIT_NOFILE", unix.RLIMIT_NOFILE},
		{"RLIMIT_NPROC", unix.RLIMIT_NPROC},
		{"RLIMIT_CORE", unix.RLIMIT_CORE},
		{"RLIMIT_MEMLOCK", unix.RLIMIT_MEMLOCK},
		{"RLIMIT_MSGQUEUE", unix.RLIMIT_MSGQUEUE},
		{"RLIMIT_SIGPENDING", unix.RLIMIT_SIGPENDING},
		{"RLIMIT_STACK", unix.RLIMIT_STACK},
		{"RLIMIT_NICE", unix.RLIMIT_NICE},
		{"RLIMIT_RTPRIO", unix.RLIMIT_RTPRIO},
	} {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.resource, &now); err != nil {
			return nil, errors.Wrapf(err, "cannot read this process's %s", l.name)
		}
		out = append(out, specs.POSIXRlimit{Type: l.name, Soft: now.Cur, Hard: now.Max})
	}
	return out, nil
}
