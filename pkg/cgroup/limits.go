package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Control is a control file and its value.
type Control struct{ File, Value string }

// Way is one way to enforce a limit: all of its controls.
type Way []Control

// Limits are the limits of a group; 0 is none.
type Limits struct {
	// Memory is in bytes, with the page cache and tmpfs files charged to the group;
	// PIDs counts processes and threads.
	Memory, PIDs uint64
	// NoSwap keeps what Memory limits in memory, where the machine can.
	NoSwap bool
	// IOWeight is the share of disk time, 1 to 1000; 100 is the default.
	IOWeight uint64
	// CPUWeight is the share of the processors while others want them too, 1 to
	// 10,000; 100 is the default.
	CPUWeight uint64
	// CPUs is how many processors' time it may use, also while nobody else wants it.
	CPUs uint64
}

// Memory are the ways to limit memory in that version of control groups.
func Memory(version int, bytes uint64) []Way {
	value := strconv.FormatUint(bytes, 10)
	if version == 2 {
		return []Way{{{"memory.max", value}}}
	}
	return []Way{{{"memory.limit_in_bytes", value}}}
}

// memoryWithoutSwap are the ways to limit memory of which nothing is swapped out; the last ones leave swap to a machine that can't say
// so. Version 1 limits memory and swap together, never to less than memory: so the order depends on the limits before.
func memoryWithoutSwap(version int, bytes uint64) []Way {
	value := strconv.FormatUint(bytes, 10)
	if version == 2 {
		return append([]Way{{{"memory.max", value}, {"memory.swap.max", "0"}}}, Memory(version, bytes)...)
	}
	memory, both := Control{"memory.limit_in_bytes", value}, Control{"memory.memsw.limit_in_bytes", value}
	return append([]Way{{memory, both}, {both, memory}}, Memory(version, bytes)...)
}

// PIDs are the ways to limit processes and threads.
func PIDs(most uint64) []Way { return []Way{{{"pids.max", strconv.FormatUint(most, 10)}}} }

// IOWeight are the ways to set a weight among the users of a disk.
func IOWeight(version int, weight uint64) []Way {
	value := strconv.FormatUint(weight, 10)
	if version == 2 {
		return []Way{{{"io.bfq.weight", value}}, {{"io.weight", "default " + value}}}
	}
	return []Way{{{"blkio.bfq.weight", value}}, {{"blkio.weight", value}}}
}

// CPUWeight are the ways to set a weight among the users of the processors. Version
// 1 counts in shares, of which the default is 1024.
func CPUWeight(version int, weight uint64) []Way {
	if version == 2 {
		return []Way{{{"cpu.weight", strconv.FormatUint(weight, 10)}}}
	}
	return []Way{{{sharesFile, strconv.FormatUint((weight*everybodysShares+everybodysWeight/2)/everybodysWeight, 10)}}}
}

// CPUs are the ways to bound the use of the processors.
func CPUs(version int, most uint64) []Way {
	quota := strconv.FormatUint(most*quotaPeriod, 10)
	if version == 2 {
		return []Way{{{quotaFile2, quota + " " + strconv.Itoa(quotaPeriod)}}}
	}
	return []Way{{{quotaFile1, quota}, {periodFile1, strconv.Itoa(quotaPeriod)}}}
}

const (
	// quotaPeriod is the time in which a quota is used up, in microseconds.
	quotaPeriod = 100_000
	quotaFile1  = "cpu.cfs_quota_us"
	periodFile1 = "cpu.cfs_period_us"
	quotaFile2  = "cpu.max"

	sharesFile       = "cpu.shares"
	everybodysShares = 1024
	// everybodysWeight is a new group's weight, of disk time and of the processors.
	everybodysWeight = 100
)

// Hold writes all controls of the first way that the kernel accepts, into a
// group's folder. It reports whether there is one.
func Hold(dir string, ways []Way) bool {
	for _, way := range ways {
		works := true
		for _, c := range way {
			works = works && write(filepath.Join(dir, c.File), c.Value) == nil
		}
		if works {
			return true
		}
	}
	return false
}

// Enable enables controllers of version 2 for the groups below a folder, as far
// as possible: one that can't be enabled has no files there.
func Enable(dir string, controllers ...string) {
	for _, c := range controllers {
		_ = write(filepath.Join(dir, "cgroup.subtree_control"), "+"+c)
	}
}

// limit is one of Limits in one version.
type limit struct {
	// name is for people, controller is version 2's name.
	name, controller string
	value            uint64
	ways             func(version int) []Way
	// weight marks a share among others, not a ceiling: each group has one.
	weight bool
}

func (l Limits) memory(version int) []Way {
	if l.NoSwap {
		return memoryWithoutSwap(version, l.Memory)
	}
	return Memory(version, l.Memory)
}

func (l Limits) all() []limit {
	all := []limit{
		{"memory", "memory", l.Memory, l.memory, false},
		{"pids", "pids", l.PIDs, func(int) []Way { return PIDs(l.PIDs) }, false},
		{"io weight", "io", l.IOWeight, func(v int) []Way { return IOWeight(v, l.IOWeight) }, true},
		{"cpu weight", "cpu", l.CPUWeight, func(v int) []Way { return CPUWeight(v, l.CPUWeight) }, true},
		{"cpus", "cpu", l.CPUs, func(v int) []Way { return CPUs(v, l.CPUs) }, false},
	}
	var out []limit
	for _, one := range all {
		if one.value != 0 {
			out = append(out, one)
		}
	}
	return out
}

// reading is the limit's value in a group's folder; 0 for none.
func (l limit) reading(version int, dir string) uint64 {
	for _, way := range l.ways(version) {
		text, err := os.ReadFile(filepath.Join(dir, way[0].File))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text)) // "default 100", "max" or a number
		if len(fields) == 0 {
			continue
		}
		if way[0].File == quotaFile1 || way[0].File == quotaFile2 {
			return cpusOf(dir, fields)
		}
		n, err := strconv.ParseUint(fields[min(len(fields)-1, 1)], 10, 64)
		switch {
		case err != nil || n >= unlimited:
			return 0
		case way[0].File == sharesFile:
			return (n*everybodysWeight + everybodysShares/2) / everybodysShares
		}
		return n
	}
	return 0
}

// cpusOf is the number of processors of a quota, rounded up: "200000 100000" or "max 100000" of version 2, "200000" or "-1" of
// version 1, whose period is in another file.
func cpusOf(dir string, quota []string) uint64 {
	if len(quota) == 1 {
		text, _ := os.ReadFile(filepath.Join(dir, periodFile1))
		quota = append(quota, strings.TrimSpace(string(text)))
	}
	n, err := strconv.ParseUint(quota[0], 10, 64)
	period, errPeriod := strconv.ParseUint(quota[1], 10, 64)
	if err != nil || errPeriod != nil || period == 0 {
		return 0
	}
	return (n + period - 1) / period
}

// unlimited is the least of version 1's figures that mean no limit.
const unlimited = 1 << 62

// there reports whether a folder has a file for the limit.
func (l limit) there(version int, dir string) bool {
	for _, way := range l.ways(version) {
		if _, err := os.Stat(filepath.Join(dir, way[0].File)); err == nil {
			return true
		}
	}
	return false
}

// write writes an existing control file; a missing one is a control that the kernel lacks.
func write(path, value string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(value)
	return err
}
