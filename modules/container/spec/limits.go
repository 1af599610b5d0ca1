package spec

import (
	"crypto/rand"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/cgroup"
)

// trial is a limit: it holds when all controls of one of the ways can be
// written, in a cgroup of a controller (version 1 only).
type trial struct {
	holds      *bool
	controller string
	ways       []cgroup.Way
}

// limits finds the version of cgroups and tries each limit.
func (p Probe) limits(h *Host) error {
	name := "croft-probe-" + strings.ToLower(rand.Text()[:12])
	if p.there(p.Cgroups, "cgroup.controllers") {
		h.Cgroup = 2
		return p.limits2(h, name)
	}
	h.Cgroup = 1
	for _, t := range trials1(h) {
		parent := filepath.Join(p.Cgroups, t.controller)
		if !p.there(parent, "cgroup.procs") {
			continue // no such controller: the limit doesn't hold
		}
		err := p.within(filepath.Join(parent, name), func(dir string) error {
			*t.holds = cgroup.Hold(dir, t.ways)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sizeTried, in bytes, and pidsTried are the limits of memory and processes that are tried.
const sizeTried, pidsTried = 64 << 20, 16

func trials1(h *Host) []trial {
	memory := cgroup.Memory(1, sizeTried)
	return []trial{
		{&h.CPU, "cpu", []cgroup.Way{{{File: "cpu.cfs_period_us", Value: "100000"}, {File: "cpu.cfs_quota_us", Value: "50000"}, {File: "cpu.shares", Value: "512"}}}},
		{&h.Memory, "memory", memory},
		{&h.Swap, "memory", []cgroup.Way{append(memory[0], cgroup.Control{File: "memory.memsw.limit_in_bytes", Value: memory[0][0].Value})}},
		{&h.PIDs, "pids", cgroup.PIDs(pidsTried)},
		{&h.IOWeight, "blkio", cgroup.IOWeight(1, DefaultIOWeight)},
		{&h.Devices, "devices", []cgroup.Way{{{File: "devices.deny", Value: "a"}}}},
	}
}

func (p Probe) limits2(h *Host, name string) error {
	// One that can't be turned on has no files below.
	there := strings.Fields(p.read(p.Cgroups, "cgroup.controllers"))
	for _, controller := range []string{"cpu", "memory", "pids", "io"} {
		if slices.Contains(there, controller) {
			cgroup.Enable(p.Cgroups, controller)
		}
	}
	return p.within(filepath.Join(p.Cgroups, name), func(dir string) error {
		for _, t := range trials2(h) {
			*t.holds = cgroup.Hold(dir, t.ways)
		}
		h.Devices = deviceFilter(dir) == nil
		return nil
	})
}

func trials2(h *Host) []trial {
	return []trial{
		{&h.CPU, "", []cgroup.Way{{{File: "cpu.max", Value: "50000 100000"}, {File: "cpu.weight", Value: "50"}}}},
		{&h.Memory, "", cgroup.Memory(2, sizeTried)},
		{&h.Swap, "", []cgroup.Way{{{File: "memory.swap.max", Value: "0"}}}},
		{&h.PIDs, "", cgroup.PIDs(pidsTried)},
		{&h.IOWeight, "", cgroup.IOWeight(2, DefaultIOWeight)},
	}
}

// within makes a cgroup, and removes it again.
func (p Probe) within(dir string, try func(dir string) error) (err error) {
	if err := p.mkdir(dir); err != nil {
		return errors.Wrap(err, "cannot make a cgroup to try limits in")
	}
	defer func() {
		if gone := p.rmdir(dir); gone != nil && err == nil {
			err = errors.Wrap(gone, "cannot remove the cgroup in which limits were tried")
		}
	}()
	return try(dir)
}
