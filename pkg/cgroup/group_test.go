package cgroup

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
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

// A group ends with all that its processes start meanwhile, wherever these hide.
func TestAGroupEndsWithAllItsProcesses(t *testing.T) {
	name := "croft-end-test-" + strconv.Itoa(os.Getpid())
	outer, err := Beside(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := outer.Make(); err != nil {
		t.Fatal(err)
	}
	g, err := Beside(name + "/1")
	if err != nil {
		t.Fatal(err)
	}
	// It waits until it is in the group, then forks without end into sessions of their own.
	cmd := exec.Command("sh", "-c", `read go; f() { setsid sh -c 'while :; do sleep 600 & sleep 0.01; done' & }; while :; do f; sleep 0.05; done`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if failures := g.Enter(cmd.Process.Pid); len(failures) > 0 {
		t.Error(failures)
	}
	if missing := g.Limit(Limits{PIDs: 64}); len(missing) > 0 {
		t.Error(missing)
	}
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(time.Minute); len(g.PIDs()) < 30; {
		if time.Now().After(deadline) {
			t.Fatal("it starts no processes")
		}
		time.Sleep(10 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := g.End(ctx); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if g.There() {
		t.Error("the group stays")
	}
	outer.Remove()
}
