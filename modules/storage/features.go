package storage

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/kernel"
	"github.com/croft-edge/croft/pkg/loop"
)

// btrfsFeatures is where the kernel tells what its btrfs has.
const btrfsFeatures = "/sys/fs/btrfs/features"

// Features are what pools need of the kernel. btrfs itself is what the module isn't opened without.
func (m *Module) Features() []kernel.Feature {
	out := []kernel.Feature{{
		Name: "simple quotas", Effect: "volumes have qgroups, which cost more, and may have to be counted anew", Degraded: true,
		Try: func(context.Context) error { return simpleQuotas(btrfsFeatures, m.qgroups()) },
	}}
	if slices.ContainsFunc(m.cfg.Pools, func(s PoolSpec) bool { return s.Disk == "" }) {
		out = append(out, kernel.Feature{
			Name: "loop devices", Effect: "the pool on a loop file can't be used", Try: func(context.Context) error { return m.tryLoop() },
		}, kernel.Feature{
			Name: "direct access of loop files", Effect: "what volumes write gathers in memory, and one that is synced waits for all", Degraded: true,
			Try: func(context.Context) error { return direct(m.loops(), loop.Direct) },
		})
	}
	return out
}

// qgroups are the names of the pools that have them.
func (m *Module) qgroups() (names []string) {
	for _, p := range m.pools {
		if p.failed == nil && p.filesystems.Quota() == btrfs.Qgroup {
			names = append(names, p.name)
		}
	}
	return names
}

// loops are the loop devices of the pools that work.
func (m *Module) loops() (devices []string) {
	for _, p := range m.status().Pools {
		for _, d := range p.Devices {
			if strings.HasPrefix(d, "/dev/loop") {
				devices = append(devices, d)
			}
		}
	}
	return devices
}

func (m *Module) tryLoop() error {
	if len(m.loops()) > 0 {
		return nil
	}
	return loop.Try()
}

// simpleQuotas says why pools have other quotas. folder is where the kernel tells what its btrfs has.
func simpleQuotas(folder string, qgroups []string) error {
	if _, err := os.Stat(folder + "/simple_quota"); os.IsNotExist(err) {
		return errors.New("the kernel's btrfs has none, which is older than 6.7")
	}
	if len(qgroups) > 0 {
		return errors.Errorf("made with qgroups, which stay: %s", strings.Join(qgroups, ", "))
	}
	return nil
}

// direct says which loop devices reach their files through the page cache.
func direct(devices []string, is func(device string) bool) error {
	var cached []string
	for _, d := range devices {
		if !is(d) {
			cached = append(cached, d)
		}
	}
	if len(cached) == 0 {
		return nil
	}
	return errors.Errorf("the file system of the files can't do it: %s", strings.Join(cached, ", "))
}
