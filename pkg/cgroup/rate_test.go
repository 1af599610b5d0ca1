package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestRatesOfVersion2(t *testing.T) {
	r := newTree(t)
	r.group("", map[string]string{"cgroup.controllers": "io\n"})
	r.group("x", map[string]string{"io.max": ""})
	g := Group{[]place{{Hierarchy{Point: r.dir, Group: r.dir}, filepath.Join(r.dir, "x")}}}
	if !g.Throttle(Rate{ReadBytes: 1000, WriteOps: 5}, []string{"7:3"}) {
		t.Error("it isn't held")
	}
	r.is("x/io.max", "7:3 rbps=1000 wiops=5")
	if !g.Throttle(Rate{}, []string{"7:3"}) {
		t.Error("no rate can't be held")
	}
	r.group("y", nil)
	g.places[0].dir = filepath.Join(r.dir, "y")
	if g.Throttle(Rate{ReadBytes: 1000}, []string{"7:3"}) {
		t.Error("it is held where the kernel has no such control")
	}
}

// TestCPUs: the quota of both versions, written and read back; a part of a processor counts as one.
func TestCPUs(t *testing.T) {
	r := newTree(t)
	r.group("", map[string]string{"cgroup.controllers": "cpu\n"})
	two := filepath.Join(r.dir, "two")
	r.group("two", map[string]string{"cpu.max": "max 100000"})
	v2 := Group{[]place{{Hierarchy{Point: r.dir, Group: r.dir}, two}}}
	of := Limits{CPUs: 3}
	if n := v2.Limits(of).CPUs; n != 0 {
		t.Errorf("no quota is read as %d", n)
	}
	if missing := v2.Limit(of); len(missing) != 0 || v2.Limits(of).CPUs != 3 {
		t.Errorf("missing %v, in force %+v", missing, v2.Limits(of))
	}
	r.is("two/cpu.max", "300000 100000")
	r.group("half", map[string]string{"cpu.max": "50000 100000"})
	v2.places[0].dir = filepath.Join(r.dir, "half")
	if n := v2.Limits(of).CPUs; n != 1 {
		t.Errorf("half a processor is read as %d", n)
	}
	r.group("one", map[string]string{"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "50000"})
	v1 := Group{[]place{{Hierarchy{Point: r.dir, Group: r.dir, controllers: "cpu"}, filepath.Join(r.dir, "one")}}}
	if n := v1.Limits(of).CPUs; n != 0 {
		t.Errorf("no quota of version 1 is read as %d", n)
	}
	if missing := v1.Limit(of); len(missing) != 0 || v1.Limits(of).CPUs != 3 {
		t.Errorf("version 1: missing %v, in force %+v", missing, v1.Limits(of))
	}
	r.is("one/cpu.cfs_quota_us", "300000")
}

// TestARateIsHeld reads from a disk in a real control group.
func TestARateIsHeld(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disk")
	run := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("dd", "if=/dev/zero", "of="+file, "bs=1M", "count=16")
	loop := run("losetup", "--find", "--show", file)
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", loop).Run() })
	g, err := At("/croft-rate-" + strconv.Itoa(os.Getpid()))
	if err == nil {
		err = g.Make()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Remove)
	if !g.Throttle(Rate{ReadBytes: 1 << 20}, []string{diskOf(loop)}) {
		t.Fatal("this machine can't hold it")
	}
	read := func(enter bool) time.Duration {
		args := []string{"-c", `for dir in "$@"; do echo $$ >"$dir/cgroup.procs"; done; exec dd if="$0" of=/dev/null bs=256k count=16 iflag=direct`, loop}
		if enter {
			args = append(args, g.Folders()...)
		}
		began := time.Now()
		run("sh", args...)
		return time.Since(began)
	}
	// 4 MiB, of which the kernel passes a part at once.
	if took := read(true); took < 2500*time.Millisecond {
		t.Errorf("4 MiB at 1 MiB a second took %s, without a limit %s", took, read(false))
	}
}

func TestDisks(t *testing.T) {
	got, err := Disks("/proc/self", "/sys")
	if err != nil || len(got) != 0 {
		t.Errorf("what isn't on a disk is on %v (%v)", got, err)
	}
}

// TestNoSwap: a group's memory isn't swapped out where the kernel can say so, and is limited where it can't.
func TestNoSwap(t *testing.T) {
	limits := Limits{Memory: 1 << 20, NoSwap: true}
	for _, c := range []struct {
		version int
		have    []string
		want    map[string]string
	}{
		{2, []string{"memory.max", "memory.swap.max"}, map[string]string{"memory.max": "1048576", "memory.swap.max": "0"}},
		{2, []string{"memory.max"}, map[string]string{"memory.max": "1048576"}},
		{1, []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}, map[string]string{"memory.limit_in_bytes": "1048576", "memory.memsw.limit_in_bytes": "1048576"}},
		{1, []string{"memory.limit_in_bytes"}, map[string]string{"memory.limit_in_bytes": "1048576"}},
	} {
		dir := t.TempDir()
		for _, name := range c.have {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if !Hold(dir, limits.memory(c.version)) {
			t.Errorf("version %d with %v: the limit isn't held", c.version, c.have)
		}
		for name, want := range c.want {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
				t.Errorf("version %d with %v: %s is %q, %v", c.version, c.have, name, got, err)
			}
		}
	}
}
