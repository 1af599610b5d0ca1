package container

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// The node keeps an eighth of the machine's processes and threads for itself.
const keptPIDs = 8

// leastCeiling is the least memory of all containers together that is worth a
// ceiling: below it the settings don't fit the machine.
const leastCeiling = 64 << 20

// Weight is the share of the processors of all containers together, ten times what another program
// has and five times what a carrier has: what strangers have the node do comes after what containers were
// promised. The agent, which runs seldom and shortly, has twice as much. Each container has as much of
// it as it has cores.
const Weight = 1000

// ceil bounds what all containers together take of memory, processes and threads:
// more of it ends a container, never what the node is made of. It is set anew
// each time that the module is opened, below containers that run, too.
func (c Config) ceil() error {
	if c.Reserve == 0 {
		return nil
	}
	var machine unix.Sysinfo_t
	if err := unix.Sysinfo(&machine); err != nil {
		return errors.Wrap(err, "cannot tell how much memory the machine has")
	}
	total := uint64(machine.Totalram) * uint64(machine.Unit)
	if total < c.Reserve+leastCeiling {
		return errors.Errorf("cannot keep %d bytes of memory for the node: the machine has %d", c.Reserve, total)
	}
	all, err := cgroup.At(c.CgroupParent)
	if err == nil {
		err = all.Make()
	}
	if err != nil {
		return errors.Wrap(err, "cannot make the control group of all containers")
	}
	if missing := all.Limit(cgroup.Limits{Memory: total - c.Reserve, PIDs: mostPIDs() / keptPIDs * (keptPIDs - 1)}); len(missing) > 0 {
		return errors.Errorf("cannot limit what all containers take together: this machine can't hold their %s", strings.Join(missing, ", "))
	}
	// Where it can't be had, containers have what everybody has.
	_ = all.Limit(cgroup.Limits{CPUWeight: Weight})
	return nil
}

// mostPIDs is how many processes and threads the machine may have.
func mostPIDs() uint64 {
	most := uint64(32768)
	for i, name := range []string{"pid_max", "threads-max"} {
		raw, err := os.ReadFile(filepath.Join("/proc/sys/kernel", name))
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64); err == nil && (i == 0 || n < most) {
			most = n
		}
	}
	return most
}

// ownIOWeight lets zdb's containers, of which many users have namespaces, go before
// one user's, which have 100.
const ownIOWeight = 200

func (c Config) ioWeight(user string) uint64 {
	if user == node.OwnUser {
		return ownIOWeight
	}
	return c.IOWeight
}

// makeShims makes the control group of shims and returns its path. It is empty where
// there can't be one: shims are in containerd's group then.
func (c Config) makeShims() string {
	g, err := cgroup.At(c.shims())
	if err == nil {
		err = g.Make()
	}
	if err != nil || len(g.Folders()) == 0 {
		return ""
	}
	return c.shims()
}
