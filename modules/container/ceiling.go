package container

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// The node keeps an eighth of the machine's processes and threads for itself.
const keptPIDs = 8

// leastCeiling is the least memory of all containers together that is worth a
// ceiling: below it the settings don't fit the machine.
const leastCeiling = 64 << 20

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
	memory := strconv.FormatUint(total-c.Reserve, 10)
	pids := strconv.FormatUint(mostPIDs()/keptPIDs*(keptPIDs-1), 10)
	const groups = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(groups, "cgroup.controllers")); err == nil {
		// What runs in the containers' own groups is limited only where the
		// controllers are turned on above: where they can't be, the files aren't there.
		_ = put(filepath.Join(groups, "cgroup.subtree_control"), "+memory +pids")
		return firstOf(
			c.limit(groups, "memory.max", memory),
			c.limit(groups, "pids.max", pids))
	}
	return firstOf(
		c.limit(filepath.Join(groups, "memory"), "memory.limit_in_bytes", memory),
		c.limit(filepath.Join(groups, "pids"), "pids.max", pids))
}

// limit writes a limit of the group of all containers.
func (c Config) limit(hierarchy, file, value string) error {
	dir := filepath.Join(hierarchy, c.CgroupParent)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return errors.Wrap(err, "cannot make the control group of all containers")
	}
	return errors.Wrap(put(filepath.Join(dir, file), value), "cannot limit what all containers take together")
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

// put writes a file of the kernel's, which is there where the kernel has it.
func put(path, value string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(value)
	return err
}

func firstOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}
