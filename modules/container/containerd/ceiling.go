package containerd

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/cgroup"
)

// Ceiling are the limits of croft's own containerd. It takes 40 to 60 MiB, and some
// 10 KiB a container; the page cache of images' contents counts, too, and is dropped under
// pressure. It has some 20 threads, and one more for each call that waits for a
// disk. Its disk weight is above that of users' containers, whose starts wait for it; its processor
// weight is that of each part of croft. A killed containerd is started again by the agent;
// containers run on.
func Ceiling() cgroup.Limits {
	return cgroup.Limits{Memory: 512 << 20, PIDs: 2048, IOWeight: 500, CPUWeight: 200}
}

// Group is the name of the control group of croft's own containerd.
func (c Config) Group() string { return c.group() }

// confine limits croft's own containerd, whose process that is, and moves its shims out of its
// group.
func (c Config) confine(pid int) {
	l := Ceiling()
	if own, err := cgroup.Beside(c.group()); err == nil && own.Memory() > l.Memory/4*3 {
		// The memory that earlier shims have touched stays the group's: the kernel would kill
		// containerd for it. The next containerd has a new group.
		c.Log.Warn().Str("step", "containerd").Uint64("bytes", own.Memory()).Msg("cannot limit the memory of containerd's group: it uses too much now")
		l.Memory = 0
	}
	missing, failures := cgroup.Put(pid, c.group(), l)
	for _, err := range failures {
		c.Log.Warn().Str("step", "containerd").Err(err).Msg("cannot give containerd all of its control groups")
	}
	if len(missing) > 0 {
		c.Log.Warn().Str("step", "containerd").Strs("missing", missing).Msg("this machine can't hold all limits of containerd")
	}
	if own := c.ownGroup(); own != nil {
		c.moveShims(*own, pid)
	}
}

// ownGroup is containerd's group; nil where it isn't found.
func (c Config) ownGroup() *cgroup.Group {
	own, err := cgroup.Beside(c.group())
	if err != nil {
		return nil
	}
	return &own
}

// moveShims moves shims from containerd's group, own, to the group of shims: those of
// containers that were made before there was such a group. Their memory is the containers', and
// the end of a shim would end its container. pid is containerd's.
func (c Config) moveShims(own cgroup.Group, pid int) {
	if c.Shims == "" {
		return
	}
	for _, other := range own.PIDs() {
		if other <= 1 || other == pid || !isShim(other) {
			continue
		}
		if shims, err := cgroup.At(c.Shims); err == nil {
			_ = shims.Enter(other) // it may have ended
		}
	}
}

// isShim tells a shim from runc and the processes that runc makes containers of, which move to
// the container's own group themselves.
func isShim(pid int) bool {
	program, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	return err == nil && strings.HasPrefix(filepath.Base(program), "containerd-shim")
}
