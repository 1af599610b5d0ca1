package ceiling

import (
	"os/exec"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/hooks"
	"github.com/croft-edge/croft/pkg/cgroup"
)

// TestRemoveGroupsEndsHooks that a killed croftd has left, in whichever of their groups they are.
func TestRemoveGroupsEndsHooks(t *testing.T) {
	dir := t.TempDir()
	var left []<-chan error
	names := hooks.Groups(dir)
	for _, name := range []string{names[0], names[len(names)-1]} {
		cmd := exec.CommandContext(t.Context(), "sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		left = append(left, ended)
		if _, failures := cgroup.Put(cmd.Process.Pid, name, cgroup.Limits{}); len(failures) > 0 {
			t.Fatal(failures)
		}
	}
	RemoveGroups(dir, []Process{{Name: "provision"}})
	for i, ended := range left {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Errorf("hook %d still runs", i)
		}
	}
	for _, name := range names {
		if g, err := cgroup.Beside(name); err != nil || g.There() {
			t.Errorf("%s is there still (%v)", name, err)
		}
	}
}
