// Package ceiling holds the resource limits of croft's own processes: each one's control group and its
// limits there. See docs/adr/0027-ceilings.md.
package ceiling

import (
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/hooks"
	"github.com/croft-edge/croft/modules/container/containerd"
	unpacking "github.com/croft-edge/croft/modules/container/image/unpack"
	wg "github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/flist/database"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/resources/host"
)

const (
	// AgentMemory is for the whole node in one process, and for the two of its processes that keep most
	// in memory: 65 MiB of tombstones, 64 MiB of opened secrets, 8 images' documents of 24 MiB, some
	// 1,600 connections of the door and of tunnels with kernel buffers of 192 KiB, less than half of
	// which was ever measured at once; bytes.
	AgentMemory = 768 << 20
	// moduleMemory is for each of the other processes, with the tools that it runs: mkfs.btrfs takes
	// some 20 MiB, a backup of a large pool's quota table some 100; bytes.
	moduleMemory = 512 << 20
	// agentPIDs are its threads, one for each call blocked on a disk, and its child processes.
	agentPIDs = 2048
	// agentIOWeight gives the agent's records precedence over containers' writes, which have 100.
	agentIOWeight = 500
	// agentWeight is the agent's CPU weight, twice that of all containers together (groups.Weight in
	// modules/container): everything waits for it, and it runs rarely and briefly. With less, each step
	// of a reservation waits for the time slices of all busy processes, some milliseconds each; see
	// docs/adr/0033-serving-weight.md.
	agentWeight = 2000

	// unpackPIDs are their threads: some 15 each.
	unpackPIDs = 256
	// unpackIOWeight is a container's: only new containers wait for it.
	unpackIOWeight = 100
	// unpackWeight is low: a layer that takes a minute of CPU mustn't slow running containers, and must
	// still progress beside containers that use all their CPU.
	unpackWeight = 20

	// doorMemory is for the process that parses users' and strangers' input: 56 MB with its 768
	// connections (ADR 24), and 192 KiB of kernel buffers for each; bytes.
	doorMemory = uint64(384 << 20)
	// doorPIDs are its threads.
	doorPIDs = 256
	// doorIOWeight is a container's: it reads and writes no files.
	doorIOWeight = 100
	// doorWeight is the default of other programs: strangers cause most of its work.
	doorWeight = 100
)

// The helper processes of the agent and of the container module.
const (
	unpack = "unpack"
	door   = "door"
)

// Process is one of the processes of a node: the whole node, or a part of it.
type Process struct {
	Name string
	// Memory is the limit in bytes; 0 is moduleMemory.
	Memory uint64
}

func (p Process) limits() cgroup.Limits {
	l := cgroup.Limits{Memory: moduleMemory, PIDs: agentPIDs, IOWeight: agentIOWeight, CPUWeight: agentWeight}
	if p.Memory != 0 {
		l.Memory = p.Memory
	}
	return l
}

// unpackMemory is for all unpacking processes together: the maximum number of them, each at its own limit, the process that
// reads a flist, and 256 MiB for the page cache of their writes; bytes.
func unpackMemory() uint64 {
	const atOnce, pageCache = 3, 256 << 20
	return atOnce*uint64(unpacking.Memory.Each) + uint64(database.Memory.Each) + pageCache
}

func unpackLimits() cgroup.Limits {
	return cgroup.Limits{Memory: unpackMemory(), PIDs: unpackPIDs, IOWeight: unpackIOWeight, CPUWeight: unpackWeight}
}

func doorLimits() cgroup.Limits {
	return cgroup.Limits{Memory: doorMemory, PIDs: doorPIDs, IOWeight: doorIOWeight, CPUWeight: doorWeight}
}

// Settle applies this process's limits, and makes the garbage collector work harder before the kernel
// kills it. The process also runs on a machine that can't enforce a limit.
func (p Process) Settle(runDir string, log zerolog.Logger) *cgroup.Seat {
	seat, err := cgroup.Settle(cgroup.Name(p.Name, runDir), p.limits())
	if err != nil {
		log.Warn().Err(err).Msg("cannot limit this process")
		return &cgroup.Seat{}
	}
	if len(seat.Missing) > 0 {
		log.Warn().Strs("missing", seat.Missing).Msg("some limits of this process can't be set on this machine")
	}
	if len(seat.Given) > 0 {
		log.Info().Strs("given", seat.Given).Msg("limits that are already set for this process are kept")
	}
	seat.BoundHeap()
	return seat
}

// ConfineUnpack limits a process that is about to unpack a layer, or to read a flist.
func ConfineUnpack(c config.Config, log zerolog.Logger) func(pid int) {
	return confineHelper(c, log, unpack, unpackLimits())
}

// ConfineDoor limits the door's process before it receives a connection.
func ConfineDoor(c config.Config, log zerolog.Logger) func(pid int) {
	return confineHelper(c, log, door, doorLimits())
}

func confineHelper(c config.Config, log zerolog.Logger, part string, l cgroup.Limits) func(pid int) {
	name := cgroup.Name(part, c.RunDir)
	return func(pid int) {
		// A limit that fails here fails for the agent too, and was logged then. Each process also limits
		// its own memory.
		if _, failures := cgroup.Put(pid, name, l); len(failures) > 0 {
			log.Debug().Errs("failures", failures).Str("part", part).Msg("a process is outside of its control group")
		}
	}
}

// endHooksFor bounds the end of a killed croftd's hooks.
const endHooksFor = 10 * time.Second

// RemoveGroups removes the control groups of a stopped node's processes. It ends hooks
// that a killed croftd left behind.
func RemoveGroups(runDir string, processes []Process) {
	ctx, cancel := context.WithTimeout(context.Background(), endHooksFor)
	defer cancel()
	for _, name := range hooks.Groups(runDir) {
		if g, err := cgroup.Beside(name); err == nil && g.There() {
			_ = g.End(ctx) // what is left has its group still
		}
	}
	for _, p := range append(slices.Clone(processes), Process{Name: unpack}, Process{Name: door}) {
		if g, err := cgroup.Beside(cgroup.Name(p.Name, runDir)); err == nil {
			g.Remove()
		}
	}
}

// Own is the running process and its control group; Seat is nil before it has one.
type Own struct {
	Process string
	Seat    *cgroup.Seat
}

// All returns the limits and usage of croft's own parts, those that exist.
func All(c config.Config, processes []Process, own Own) []host.CeilingSpec {
	out := []host.CeilingSpec{}
	all, err := cgroup.Hierarchies()
	if err != nil {
		return out
	}
	add := func(part string, g cgroup.Group, l cgroup.Limits) {
		if g.There() {
			out = append(out, ceiling(part, g, l))
		}
	}
	for _, p := range processes {
		group := cgroup.BesideIn(all, cgroup.Name(p.Name, c.RunDir))
		if p.Name == own.Process && own.Seat != nil {
			group = own.Seat.Group
		}
		add(p.Name, group, p.limits())
	}
	add(unpack, cgroup.BesideIn(all, cgroup.Name(unpack, c.RunDir)), unpackLimits())
	add(door, cgroup.BesideIn(all, cgroup.Name(door, c.RunDir)), doorLimits())
	add("containerd", cgroup.BesideIn(all, containerd.Config{RunDir: c.RunDir}.Group()), containerd.Ceiling())
	add("carrier wg", cgroup.BesideIn(all, carrier.FolderOf(c.RunDir, "wg").Group()), carrier.Ceiling(wg.DefaultHardLimit))
	add("carrier log", cgroup.BesideIn(all, carrier.FolderOf(c.RunDir, "log").Group()), carrier.Ceiling(logs.DefaultHardLimit))
	add("all containers", cgroup.AtIn(all, "/"+c.Containers.Cgroup), cgroup.Limits{Memory: 1, PIDs: 1, CPUWeight: 1})
	return out
}

func ceiling(part string, g cgroup.Group, l cgroup.Limits) host.CeilingSpec {
	now := g.Limits(l)
	out := host.CeilingSpec{Part: part, Memory: now.Memory, Used: g.Memory(), PIDs: now.PIDs, IOWeight: now.IOWeight, CPUWeight: now.CPUWeight, OOMKills: g.Events().OOMKills, Missing: []string{}}
	for _, one := range []struct {
		name       string
		wanted, is uint64
	}{{"memory", l.Memory, now.Memory}, {"pids", l.PIDs, now.PIDs}, {"io weight", l.IOWeight, now.IOWeight}, {"cpu weight", l.CPUWeight, now.CPUWeight}} {
		if one.wanted != 0 && one.is == 0 {
			out.Missing = append(out.Missing, one.name)
		}
	}
	return out
}
