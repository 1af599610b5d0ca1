package spec

import (
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// version is of the OCI runtime specification: all that is used here is in it,
// and every runc that croft runs with knows it.
const version = "1.0.2"

// capabilities are all that root of a container may do beyond a plain user, in
// its own user namespace: to files and processes of that namespace only.
func capabilities() []string {
	return []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_NET_BIND_SERVICE", "CAP_SETGID", "CAP_SETUID"}
}

// Build writes the specification of a container for this machine. It asks for
// no limit that the machine can't hold; Host.Missing names those. Without limits
// of CPU, memory and processes, and without seccomp, it builds none: Refused.
func Build(c Config, h Host) (*specs.Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := h.enough(); err != nil {
		return nil, err
	}
	if c.PIDs == 0 {
		c.PIDs = DefaultPIDs
	}
	if c.IOWeight == 0 {
		c.IOWeight = DefaultIOWeight
	}
	s := &specs.Spec{
		Version:  version,
		Hostname: c.Hostname,
		Root:     &specs.Root{Path: c.Root, Readonly: c.ReadOnly},
		Mounts:   mounts(c.Memory),
		Process:  processOf(c, h),
		Linux: &specs.Linux{
			Namespaces:        namespaces(c, h),
			UIDMappings:       mapping(c.Base),
			GIDMappings:       mapping(c.Base),
			CgroupsPath:       c.CgroupsPath,
			Resources:         resources(c, h),
			RootfsPropagation: "rprivate",
			MaskedPaths:       append(maskedPaths(), h.Masked...),
			ReadonlyPaths:     readonlyPaths(),
			Sysctl:            sysctls(),
		},
	}
	s.Linux.Seccomp = seccompProfile(s)
	return s, nil
}

func mapping(base uint32) []specs.LinuxIDMapping {
	return []specs.LinuxIDMapping{{ContainerID: 0, HostID: base, Size: IDs}}
}

// namespaces are the two that the container keeps over its restarts, and fresh
// ones of the other kinds.
func namespaces(c Config, h Host) []specs.LinuxNamespace {
	out := []specs.LinuxNamespace{
		{Type: specs.UserNamespace, Path: c.UserNS},
		{Type: specs.NetworkNamespace, Path: c.NetNS},
		{Type: specs.PIDNamespace},
		{Type: specs.MountNamespace},
		{Type: specs.IPCNamespace},
		{Type: specs.UTSNamespace},
	}
	if h.CgroupNamespace {
		out = append(out, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	return out
}

// sysctls are of the container's own network namespace: low ports are nobody's
// privilege there, and ping needs no raw sockets.
func sysctls() map[string]string {
	return map[string]string{
		"net.ipv4.ip_unprivileged_port_start": "0",
		"net.ipv4.ping_group_range":           "0 65535",
	}
}

func processOf(c Config, h Host) *specs.Process {
	score := h.containerScore()
	p := c.Process
	out := &specs.Process{
		Terminal:        p.Terminal,
		User:            specs.User{UID: p.UID, GID: p.GID, AdditionalGids: p.Groups},
		Args:            p.Args,
		Env:             p.Env,
		Cwd:             p.Cwd,
		Capabilities:    capabilitySets(c),
		NoNewPrivileges: true,
		ApparmorProfile: h.Profile,
		OOMScoreAdj:     &score,
	}
	if h.SetRlimits {
		out.Rlimits = rlimits(c.PIDs, h.Rlimits)
	}
	return out
}

// capabilitySets are those of a first process: bounding for all; permitted and
// effective for root only, because the execve of another user would lose them
// anyhow. Nothing is inheritable or ambient. With NoCapabilities all are empty,
// and no program can get any back.
func capabilitySets(c Config) *specs.LinuxCapabilities {
	if c.NoCapabilities {
		return &specs.LinuxCapabilities{}
	}
	sets := &specs.LinuxCapabilities{Bounding: capabilities()}
	if c.Process.UID == 0 {
		sets.Permitted, sets.Effective = capabilities(), capabilities()
	}
	return sets
}
