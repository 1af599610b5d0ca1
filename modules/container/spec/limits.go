package spec

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
)

// control is a file of a cgroup and what is written into it.
type control struct{ file, value string }

// trial is a limit: it holds when all controls of one of the ways can be
// written, in a cgroup of a controller (version 1 only).
type trial struct {
	holds      *bool
	controller string
	ways       [][]control
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
			*t.holds = anyWay(dir, t.ways)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func trials1(h *Host) []trial {
	const size = "67108864"
	return []trial{
		{&h.CPU, "cpu", [][]control{{{"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", "50000"}, {"cpu.shares", "512"}}}},
		{&h.Memory, "memory", [][]control{{{"memory.limit_in_bytes", size}}}},
		{&h.Swap, "memory", [][]control{{{"memory.limit_in_bytes", size}, {"memory.memsw.limit_in_bytes", size}}}},
		{&h.PIDs, "pids", [][]control{{{"pids.max", "16"}}}},
		{&h.IOWeight, "blkio", [][]control{{{"blkio.bfq.weight", "100"}}, {{"blkio.weight", "100"}}}},
		{&h.Devices, "devices", [][]control{{{"devices.deny", "a"}}}},
	}
}

func (p Probe) limits2(h *Host, name string) error {
	for controller := range strings.FieldsSeq(p.read(p.Cgroups, "cgroup.controllers")) {
		switch controller {
		case "cpu", "memory", "pids", "io":
			// One that can't be turned on has no files below.
			_ = write(filepath.Join(p.Cgroups, "cgroup.subtree_control"), "+"+controller)
		}
	}
	return p.within(filepath.Join(p.Cgroups, name), func(dir string) error {
		for _, t := range trials2(h) {
			*t.holds = anyWay(dir, t.ways)
		}
		h.Devices = deviceFilter(dir) == nil
		return nil
	})
}

func trials2(h *Host) []trial {
	return []trial{
		{&h.CPU, "", [][]control{{{"cpu.max", "50000 100000"}, {"cpu.weight", "50"}}}},
		{&h.Memory, "", [][]control{{{"memory.max", "67108864"}}}},
		{&h.Swap, "", [][]control{{{"memory.swap.max", "0"}}}},
		{&h.PIDs, "", [][]control{{{"pids.max", "16"}}}},
		{&h.IOWeight, "", [][]control{{{"io.bfq.weight", "100"}}, {{"io.weight", "default 100"}}}},
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

func anyWay(dir string, ways [][]control) bool {
	for _, way := range ways {
		works := true
		for _, c := range way {
			works = works && write(filepath.Join(dir, c.file), c.value) == nil
		}
		if works {
			return true
		}
	}
	return false
}

// write writes a control file, which is there already when the kernel has it.
func write(path, value string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(value)
	return err
}
