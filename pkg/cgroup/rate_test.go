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
