package container

import (
	"strings"
	"syscall"
	"testing"

	"github.com/croft-edge/croft/internal/testing/containerdtest"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// The exit code 137 alone doesn't tell whether the kernel killed it.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1", "hold", "256")
	s.Memory = 64 << 20
	w.starts(s)
	said := w.is("1-1", "ended for its memory", func(i node.ContainerInfo) bool { return i.Restarts > 0 && i.OOM != "" })
	if said.ExitCode != 137 || said.OOM != "out of memory: the kernel killed it; its limit is 64 MiB" {
		t.Errorf("it is told as %+v", said)
	}
	w.close() // the knowledge survives the agent
	w.open()
	if again, err := w.Inspect("1-1"); err != nil || again.OOM == "" {
		t.Errorf("after a restart: %+v (%v)", again, err)
	}
	must(t, w.Delete("1-1"))
	// Killed by somebody else it isn't out of memory.
	other := w.runs(w.spec("1-2", "serve"))
	must(t, syscall.Kill(int(other.PID), syscall.SIGKILL))
	w.is("1-2", "killed", func(i node.ContainerInfo) bool { return i.Restarts == 1 && i.ExitCode == 137 && i.OOM == "" })
}

// The container's control group counts kills also while no agent runs.
func TestOutOfMemoryWithoutAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1", "serve")
	s.Memory = 64 << 20
	before := w.runs(s)
	group, err := cgroup.At(w.cfg.groups().Path("1-1"))
	must(t, err)
	w.close()
	end := containerdtest.Hog(t, group.Folders())
	eventually(t, "the kernel has killed the container", func() bool { return group.Events().OOMKills > 0 })
	end()
	w.open()
	back := w.is("1-1", "back", func(i node.ContainerInfo) bool { return i.State == node.ContainerRunning && i.PID != before.PID })
	if back.ExitCode != 137 || !strings.HasPrefix(back.OOM, "out of memory: ") {
		t.Errorf("what ended meanwhile: %+v", back)
	}
}
