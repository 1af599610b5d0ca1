package container

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// TestMemoryReserveOfTheNode starts containers that stay within their own
// limits and take more together than all containers may.
func TestMemoryReserveOfTheNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.close()
	var machine unix.Sysinfo_t
	must(t, unix.Sysinfo(&machine))
	const together = 256 << 20
	w.cfg.Reserve = uint64(machine.Totalram)*uint64(machine.Unit) - together
	w.open()
	for file, least := range map[string]uint64{"memory.limit_in_bytes": together, "memory.max": together, "pids.max": 1000} {
		for _, path := range []string{filepath.Join("/sys/fs/cgroup", strings.Split(file, ".")[0], w.cfg.CgroupParent, file), filepath.Join("/sys/fs/cgroup", w.cfg.CgroupParent, file)} {
			raw, err := os.ReadFile(path)
			if err != nil {
				continue // of the other version
			}
			if n, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64); err != nil || n < least || file != "pids.max" && n != least {
				t.Errorf("%s is %q, want %d", path, raw, least)
			}
		}
	}
	// Where there are weights, the containers' is ten times everybody's.
	for file, want := range map[string]string{"cpu/" + w.cfg.CgroupParent + "/cpu.shares": "10240", w.cfg.CgroupParent + "/cpu.weight": "1000"} {
		if raw, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", file)); err == nil && strings.TrimSpace(string(raw)) != want {
			t.Errorf("%s is %q, want %s", file, raw, want)
		}
	}
	first, second := w.spec("1-1", "hold", "160"), w.spec("1-2", "hold", "160")
	w.runs(first)
	w.says("1-1", "holds")
	w.starts(second)
	ended := func(i node.ContainerInfo) bool { return i.ExitCode == 128+uint64(unix.SIGKILL) }
	eventually(t, "one of the two is ended", func() bool {
		a, err := w.Inspect("1-1")
		must(t, err)
		b, err := w.Inspect("1-2")
		must(t, err)
		return ended(a) || ended(b)
	})
	// What was too much goes, and the other's turn comes.
	must(t, w.Delete("1-1"))
	w.is("1-2", "running", func(i node.ContainerInfo) bool { return i.State == node.ContainerRunning })
	w.says("1-2", "holds")
}
