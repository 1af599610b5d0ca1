package storage

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/storage/bytesize"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// DefaultLoopSize is the size in bytes of the one pool of a node without configured
// pools.
const DefaultLoopSize = 20 * bytesize.GiB

// DefaultPools is one SSD pool on a loop file of size bytes.
func DefaultPools(size uint64) []PoolSpec {
	return []PoolSpec{{Name: "ssd0", Type: workload.SSD, LoopSize: size}}
}

// Config says where the module keeps its things and which pools it offers.
type Config struct {
	// State is the absolute path of the folder that holds images and marks.
	State string
	// Mounts is the folder below which pools are mounted; empty means State/mnt.
	Mounts string
	// Pools are the pools to make or adopt; none means DefaultPools(DefaultLoopSize).
	Pools []PoolSpec
	// WipeDisks are paths of disks that may be formatted although something is
	// on them. A pool that was made here is never formatted again, named or not.
	WipeDisks []string
	// Quota is the kind for new pools; a pool that has one keeps it.
	Quota volume.Quota
	// Log gets events for the operator that no caller learns of.
	Log zerolog.Logger

	// hook is called before each durable step; tests stop there.
	hook func(step string) error
	// sweepEvery is the pause between sweeps of unused quota groups; 0 means a minute.
	sweepEvery time.Duration
	// limitsEvery is the pause between looks at the quotas; 0 means the default.
	limitsEvery time.Duration
}

// Validate checks c and names the wrong field, its value and the allowed values.
func (c Config) Validate() error {
	if !filepath.IsAbs(c.State) {
		return node.Errorf(node.Invalid, "cannot use storage config: State is %q, must be an absolute path", c.State)
	}
	if c.Mounts != "" && !filepath.IsAbs(c.Mounts) {
		return node.Errorf(node.Invalid, "cannot use storage config: Mounts is %q, must be an absolute path", c.Mounts)
	}
	if !slices.Contains([]volume.Quota{volume.Any, volume.Simple, volume.Qgroup}, c.Quota) {
		return node.Errorf(node.Invalid, "cannot use storage config: Quota is %q, must be %q, %q or empty", c.Quota, volume.Simple, volume.Qgroup)
	}
	return c.validatePools()
}

func (c Config) validatePools() error {
	names, disks := map[string]bool{}, map[string]bool{}
	for i, p := range c.Pools {
		if err := p.Validate(); err != nil {
			return node.WithKind(node.Invalid, errors.Wrapf(err, "cannot use storage config: pool %d", i+1))
		}
		if p.Name != "" && names[p.Name] {
			return node.Errorf(node.Invalid, "cannot use storage config: two pools are named %q", p.Name)
		}
		if p.Disk != "" && disks[p.Disk] {
			return node.Errorf(node.Invalid, "cannot use storage config: disk %q is named twice", p.Disk)
		}
		names[p.Name], disks[p.Disk] = true, true
	}
	return nil
}

// complete fills in the defaults.
func (c Config) complete() Config {
	c.State = filepath.Clean(c.State)
	if c.Mounts == "" {
		c.Mounts = filepath.Join(c.State, "mnt")
	}
	c.Mounts = filepath.Clean(c.Mounts)
	if len(c.Pools) == 0 {
		c.Pools = DefaultPools(DefaultLoopSize)
	}
	c.Pools = nameLoops(c.Pools)
	if c.sweepEvery == 0 {
		c.sweepEvery = time.Minute
	}
	if c.limitsEvery == 0 {
		c.limitsEvery = limitsEvery
	}
	return c
}

// at calls the hook for a step.
func (c Config) at(step string) error {
	if c.hook == nil {
		return nil
	}
	return c.hook(step)
}
