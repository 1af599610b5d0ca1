package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// A moved process is in groups beside this one's, which are removed after it.
func TestAProcessIsMoved(t *testing.T) {
	name := "croft-move-test-" + strconv.Itoa(os.Getpid())
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if g, err := Beside(name); err == nil {
			g.Remove()
		}
	})
	if missing, failed := Put(cmd.Process.Pid, name, Limits{Memory: 64 << 20, PIDs: 16}); len(missing)+len(failed) > 0 {
		t.Error(missing, failed)
	}
	group := Of(cmd.Process.Pid, name)
	groups := group.Folders()
	if got := group.Limits(Limits{Memory: 1, PIDs: 1}); got.Memory != 64<<20 || got.PIDs != 16 {
		t.Errorf("its limits are %+v", got)
	}
	mine, err := Hierarchies()
	if err != nil || len(groups) != len(mine) || len(groups) == 0 {
		t.Fatalf("it is in %v, this process in %v (%v)", groups, mine, err)
	}
	group.Remove()
	if again := Of(cmd.Process.Pid, name).Folders(); len(again) != len(groups) {
		t.Errorf("groups in use were removed: %v are left", again)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	group.Remove()
	for _, g := range groups {
		if _, err := os.Stat(g); !os.IsNotExist(err) {
			t.Errorf("group %s stayed (%v)", g, err)
		}
	}
}

// The read weight of the processors is the written one, in both versions.
func TestWeightsOfProcessors(t *testing.T) {
	r := newTree(t)
	r.group("", map[string]string{"cgroup.controllers": "cpu\n"})
	r.group("two", map[string]string{"cpu.weight": "100\n"})
	r.group("one", map[string]string{"cpu.shares": "1024\n"})
	for file, h := range map[string]Hierarchy{"cpu.weight": {Point: r.dir}, "cpu.shares": {Point: r.dir, controllers: "cpu,cpuacct"}} {
		name := map[string]string{"cpu.weight": "two", "cpu.shares": "one"}[file]
		g := Group{[]place{{h, filepath.Join(r.dir, name)}}}
		if got := g.Limits(Limits{CPUWeight: 1}).CPUWeight; got != everybodysWeight {
			t.Errorf("%s: a new group has %d", name, got)
		}
		for _, want := range []uint64{1, 20, 99, 100, 1000, 10_000} {
			if err := os.Truncate(filepath.Join(r.dir, name, file), 0); err != nil { // plain files keep the rest of a longer old value
				t.Fatal(err)
			}
			if missing := g.Limit(Limits{CPUWeight: want}); len(missing) != 0 {
				t.Errorf("%s: %v", name, missing)
			}
			if got := g.Limits(Limits{CPUWeight: 1}).CPUWeight; got != want {
				t.Errorf("%s: %d was read as %d", name, want, got)
			}
		}
	}
}
