package carrier

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// A process that is moved is in groups beside this one's, which go after it.
func TestAProcessIsMoved(t *testing.T) {
	name := "croft-move-test-" + strconv.Itoa(os.Getpid())
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if all, err := Hierarchies(); err == nil {
			RemoveGroups(OwnGroups(all, name))
		}
	})
	for _, err := range MoveTo(cmd.Process.Pid, name, 64<<20) {
		t.Error(err)
	}
	groups := GroupsOf(cmd.Process.Pid, name)
	mine, err := Hierarchies()
	if err != nil || len(groups) != len(mine) || len(groups) == 0 {
		t.Fatalf("it is in %v, this process in %v (%v)", groups, mine, err)
	}
	RemoveGroups(groups)
	if again := GroupsOf(cmd.Process.Pid, name); len(again) != len(groups) {
		t.Errorf("groups in use were removed: %v are left", again)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	RemoveGroups(groups)
	for _, g := range groups {
		if _, err := os.Stat(g); !os.IsNotExist(err) {
			t.Errorf("group %s stayed (%v)", g, err)
		}
	}
}
