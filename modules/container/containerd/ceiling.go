package containerd

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/cgroup"
)

// Ceiling are the limits of croft's own containerd. It takes 40 to 60 MiB, and some
// 10 KiB a container; the page cache of images' contents counts, too, and goes when
// it has to. It has some 20 threads, and one more for each call that waits for a
// disk. Its weight on disks is above users' containers', since each of their starts
// waits for it; of the processors it has what each part of croft has. One that is killed is started again by the agent; containers run on.
func Ceiling() cgroup.Limits {
	return cgroup.Limits{Memory: 512 << 20, PIDs: 2048, IOWeight: 500, CPUWeight: 200}
}

// Group is the name of the control group of croft's own containerd.
func (c Config) Group() string { return c.group() }

// confine limits containerd, a process of croft's own one, and moves what it has
// started out of its group.
func (c Config) confine(pid int) {
	l := Ceiling()
	if own, err := cgroup.Beside(c.group()); err == nil && own.Memory() > l.Memory/4*3 {
		// What shims of before have touched stays the group's: the kernel would end
		// containerd for it. The next one finds it gone.
		c.Log.Warn().Uint64("bytes", own.Memory()).Str("type", "containerd").Msg("containerd's group takes too much to be limited now")
		l.Memory = 0
	}
	missing, failures := cgroup.Put(pid, c.group(), l)
	for _, err := range failures {
		c.Log.Warn().Err(err).Str("type", "containerd").Msg("containerd hasn't all of the control groups that it should have")
	}
	if len(missing) > 0 {
		c.Log.Warn().Strs("missing", missing).Str("type", "containerd").Msg("this machine can't hold all limits of containerd")
	}
	c.moveShims(pid)
}

// moveShims moves all but containerd itself to the group of shims: those of
// containers that were made before there was such a group. Theirs is what
// containers cost, and the end of theirs would end a container.
func (c Config) moveShims(pid int) {
	if c.Shims == "" {
		return
	}
	own, err := cgroup.Beside(c.group())
	if err != nil {
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

// isShim tells a shim from runc and what that is making a container of, which is on
// its way into the container's own group.
func isShim(pid int) bool {
	program, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	return err == nil && strings.HasPrefix(filepath.Base(program), "containerd-shim")
}
