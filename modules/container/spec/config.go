package spec

import (
	"math"
	"path/filepath"
	"regexp"

	"github.com/croft-edge/croft/pkg/node"
)

// IDs is how many user and group IDs a container has: 0 to IDs-1.
const IDs = 65536

// DefaultPIDs is the most processes and threads of a container that asks for
// no other limit.
const DefaultPIDs = 4096

// DefaultIOWeight is the share of disk time of a container that asks for no
// other, of 1 to 1000.
const DefaultIOWeight = 100

// Config describes the container that is asked for.
type Config struct {
	// ID is the reservation's.
	ID string
	// Root is the absolute path of its root file system.
	Root string
	// UserNS and NetNS are files that keep its namespaces; the second belongs
	// to the first, in which Base is the node's ID of the container's 0.
	UserNS, NetNS string
	Base          uint32
	Process       Process
	// CgroupsPath is absolute, below the cgroup file systems.
	CgroupsPath string
	Hostname    string
	// CPU is in cores, Memory in bytes. PIDs is DefaultPIDs and IOWeight
	// DefaultIOWeight when 0.
	CPU, Memory, PIDs, IOWeight uint64
	// NoCapabilities leaves its root nothing beyond a plain user.
	NoCapabilities bool
	// ReadOnly mounts its root file system read-only; mounts in it keep their own modes.
	ReadOnly bool
}

// Process is a container's first process.
type Process struct {
	Args, Env []string
	Cwd       string
	UID, GID  uint32
	// Groups are the supplementary ones.
	Groups   []uint32
	Terminal bool
}

// minMemory is the least memory in which runc can start a process.
const minMemory = 1 << 20

var hostnamePattern = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,62}[a-zA-Z0-9])?$`)

// Validate is Invalid for a Config that this package can't build.
func (c Config) Validate() error {
	switch {
	case c.ID == "":
		return node.Errorf(node.Invalid, "cannot specify a container: it has no ID")
	case !filepath.IsAbs(c.Root) || filepath.Clean(c.Root) == "/":
		return c.refuse("root", c.Root, "an absolute path other than /")
	case !filepath.IsAbs(c.UserNS):
		return c.refuse("user namespace", c.UserNS, "an absolute path: containers without one aren't made")
	case !filepath.IsAbs(c.NetNS):
		return c.refuse("network namespace", c.NetNS, "an absolute path: containers without one aren't made")
	case c.Base < IDs || c.Base > math.MaxUint32-IDs:
		return c.refuse("base", c.Base, "from 65536 to 4294901759: IDs that nobody has on the node")
	case !filepath.IsAbs(c.CgroupsPath) || filepath.Clean(c.CgroupsPath) == "/":
		return c.refuse("cgroup", c.CgroupsPath, "an absolute path other than /")
	case !hostnamePattern.MatchString(c.Hostname):
		return c.refuse("hostname", c.Hostname, "1 to 64 letters, digits, dots and dashes")
	}
	return c.validateLimits()
}

func (c Config) validateLimits() error {
	switch {
	case c.CPU < 1 || c.CPU > math.MaxInt64/cpuPeriod:
		return c.refuse("CPU", c.CPU, "at least one core")
	case c.Memory < minMemory || c.Memory > math.MaxInt64:
		return c.refuse("memory", c.Memory, "at least 1 MiB, in bytes")
	case c.PIDs > math.MaxInt32:
		return c.refuse("processes", c.PIDs, "at most 2147483647")
	case c.IOWeight > 1000:
		return c.refuse("IO weight", c.IOWeight, "from 1 to 1000")
	}
	return c.Process.validate()
}

func (c Config) refuse(field string, value any, allowed string) error {
	return node.Errorf(node.Invalid, "cannot specify container %s: its %s is %#v, must be %s", c.ID, field, value, allowed)
}
