package spec

import (
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

const (
	// cpuPeriod is the time over which a CPU quota counts, in microseconds.
	cpuPeriod = 100_000
	// sharesPerCore is a core's weight when the processors are contended;
	// maxShares is the kernel's bound.
	sharesPerCore, maxShares = 1024, 262_144
)

// resources are the limits of the container's cgroup. runc translates them for
// version 2.
func resources(c Config, h Host) *specs.LinuxResources {
	quota, period := int64(c.CPU*cpuPeriod), uint64(cpuPeriod)
	shares := min(c.CPU, maxShares/sharesPerCore) * sharesPerCore
	memory, pids := int64(c.Memory), int64(c.PIDs)
	r := &specs.LinuxResources{
		CPU:    &specs.LinuxCPU{Quota: &quota, Period: &period, Shares: &shares},
		Memory: &specs.LinuxMemory{Limit: &memory},
		Pids:   &specs.LinuxPids{Limit: &pids},
	}
	// Swap is memory and swap together: no swap at all.
	if h.Swap {
		r.Memory.Swap = &memory
	}
	if h.IOWeight {
		weight := uint16(c.IOWeight)
		r.BlockIO = &specs.LinuxBlockIO{Weight: &weight}
	}
	if h.Devices {
		r.Devices = deviceRules()
	}
	return r
}

// deviceRules deny all but standard devices. runc adds rules of its own
// after these, for mknod and /dev/net/tun too: that is why a container has
// neither CAP_MKNOD nor such a node, and every file system in it is nodev or of
// its user namespace.
func deviceRules() []specs.LinuxDeviceCgroup {
	out := []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}
	for _, d := range [][2]int64{
		{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, // null zero full random urandom
		{5, 0}, {5, 2}, // tty ptmx
	} {
		out = append(out, specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: &d[0], Minor: &d[1], Access: "rw"})
	}
	pts := int64(136)
	return append(out, specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: &pts, Access: "rw"})
}
