package storage

import (
	"path/filepath"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/pkg/workload"
)

// settings are those of the module.
func settings() []config.Setting {
	return config.InGroup("Storage", []config.Setting{
		{Name: "pool-size", Kind: config.Size, Default: "20GiB", Help: "size of the pool on a loop file in state-dir; used when no disks are named",
			Set: config.SetSize(func(c *config.Config) *uint64 { return &c.PoolSize })},
		{Name: "pool-type", Kind: config.Text, Default: "SSD", Help: "type of the pool on a loop file: SSD or HDD",
			Set: config.OneOf(func(c *config.Config) *workload.DeviceType { return &c.PoolType }, string(workload.SSD), string(workload.HDD))},
		{Name: "disk", Kind: config.List, Default: "", Help: "whole disks to make pools of, such as SSD:/dev/nvme0n1; without a type, the kernel's",
			Set: disks(func(c *config.Config) *[]config.Disk { return &c.Disks })},
		{Name: "wipe-disk", Kind: config.List, Default: "", Help: "disks of the list that may be overwritten though something is on them",
			Set: config.SetPaths(func(c *config.Config) *[]string { return &c.WipeDisks })},
	})
}

func disks(field func(*config.Config) *[]config.Disk) config.Setter {
	return config.Matching(`((SSD|HDD):)?/.*`, func(c *config.Config, text string) error {
		*field(c) = nil
		for _, item := range config.Split(text) {
			kind, device, typed := strings.Cut(item, ":")
			if !typed {
				kind, device = "", item
			}
			t := workload.DeviceType(kind)
			if (typed && t != workload.SSD && t != workload.HDD) || !filepath.IsAbs(device) {
				return errors.Errorf("/dev/name, SSD:/dev/name or HDD:/dev/name; %q isn't", item)
			}
			*field(c) = append(*field(c), config.Disk{Type: t, Path: filepath.Clean(device)})
		}
		return nil
	})
}
