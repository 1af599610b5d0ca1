package cgroup

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tree is a folder of files that imitate control groups.
type tree struct {
	*testing.T
	dir string
}

func newTree(t *testing.T) tree { return tree{t, t.TempDir()} }

// group makes a group with these control files.
func (r tree) group(path string, files map[string]string) {
	r.Helper()
	dir := filepath.Join(r.dir, path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			r.Fatal(err)
		}
	}
}

// is checks a file's content. Plain files keep the rest of a longer old value.
func (r tree) is(file, want string) {
	r.Helper()
	got, err := os.ReadFile(filepath.Join(r.dir, file))
	if err != nil || !strings.HasPrefix(string(got), want) {
		r.Errorf("%s: %q (%v), want %q", file, got, err, want)
	}
}

func controls(more map[string]string) map[string]string {
	out := map[string]string{
		"cgroup.procs": "", "cgroup.subtree_control": "", "memory.max": "max\n", "pids.max": "max\n", "io.weight": "default 100\n",
	}
	for name, text := range more {
		out[name] = text
	}
	return out
}

var wanted = Limits{Memory: 1 << 30, PIDs: 512, IOWeight: 500}

// A manager of services has given this process a group of its own: it stays.
func TestAServiceIsLimitedInPlace(t *testing.T) {
	me := strconv.Itoa(os.Getpid()) + "\n"
	r := newTree(t)
	r.group("", map[string]string{"cgroup.controllers": "cpu io memory pids\n"})
	r.group("system.slice/croftd.service", controls(map[string]string{"cgroup.procs": me, "pids.max": "4915\n"}))
	h := Hierarchy{Point: r.dir, Group: filepath.Join(r.dir, "system.slice/croftd.service")}
	seat := settle([]Hierarchy{h}, "croft-run-1", wanted, os.Getpid())
	r.is("system.slice/croftd.service/memory.max", "1073741824")
	r.is("system.slice/croftd.service/pids.max", "4915\n")
	r.is("system.slice/croftd.service/io.weight", "default 500")
	if len(seat.Missing) != 0 || !slices.Equal(seat.Given, []string{"pids"}) || len(seat.moved) != 0 {
		t.Errorf("it is %+v", seat)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "system.slice/croft-run-1")); err == nil {
		t.Error("it has another group")
	}
}

// A manager's limits stay unchanged, higher or lower.
func TestGivenLimitsStay(t *testing.T) {
	r := newTree(t)
	r.group("", map[string]string{"cgroup.controllers": "io memory pids\n"})
	r.group("a/b", controls(map[string]string{"cgroup.procs": strconv.Itoa(os.Getpid()), "memory.max": "4294967296\n", "pids.max": "64\n", "io.weight": "default 50\n"}))
	seat := settle([]Hierarchy{{Point: r.dir, Group: filepath.Join(r.dir, "a/b")}}, "croft-run-1", wanted, os.Getpid())
	if got := seat.Group.Limits(wanted); got != (Limits{Memory: 4 << 30, PIDs: 64, IOWeight: 50}) || len(seat.Given) != 3 {
		t.Errorf("it is %+v, limits %+v", seat, got)
	}
}

// Another process is in the group: this process leaves it, and returns when it ends.
func TestASharedGroupIsLeft(t *testing.T) {
	r := newTree(t)
	r.group("", map[string]string{"cgroup.controllers": "memory pids\n", "cgroup.subtree_control": ""})
	r.group("user.slice", map[string]string{"cgroup.subtree_control": ""})
	r.group("user.slice/session", controls(map[string]string{"cgroup.procs": "1\n"}))
	r.group("user.slice/croft-run-1", controls(nil))
	h := Hierarchy{Point: r.dir, Group: filepath.Join(r.dir, "user.slice/session")}
	seat := settle([]Hierarchy{h}, "croft-run-1", wanted, os.Getpid())
	r.is("user.slice/croft-run-1/cgroup.procs", strconv.Itoa(os.Getpid()))
	r.is("user.slice/croft-run-1/memory.max", "1073741824")
	r.is("user.slice/croft-run-1/pids.max", "512")
	r.is("cgroup.subtree_control", "+cpu")
	r.is("user.slice/cgroup.subtree_control", "+cpu")
	if !slices.Equal(seat.Missing, []string{"io weight"}) || len(seat.Given) != 0 {
		t.Errorf("it is %+v", seat)
	}
	// Processes started from here aren't below the agent's ceiling.
	h.Group = filepath.Join(r.dir, "user.slice/croft-run-1")
	if got := BesideIn([]Hierarchy{h}, "croft-wg-2").Folders(); !slices.Equal(got, []string{filepath.Join(r.dir, "user.slice/croft-wg-2")}) {
		t.Errorf("a carrier would be in %v", got)
	}
	seat.Leave()
	r.is("user.slice/session/cgroup.procs", strconv.Itoa(os.Getpid()))
}

// Version 1 has a hierarchy a controller. A group that somebody has limited isn't left.
func TestVersion1IsLimitedByController(t *testing.T) {
	r := newTree(t)
	r.group("memory/jail", map[string]string{"cgroup.procs": "1\n", "memory.limit_in_bytes": "9223372036854771712\n"})
	r.group("memory/jail/croft-run-1", map[string]string{"cgroup.procs": "", "memory.limit_in_bytes": "4096\n", "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "memory.max_usage_in_bytes": "1073700000\n",
		"memory.usage_in_bytes": "5000\n", "memory.stat": "cache 1\ntotal_inactive_file 2000\n"})
	r.group("pids", map[string]string{"cgroup.procs": "1\n"})
	r.group("pids/croft-run-1", map[string]string{"cgroup.procs": "", "pids.max": "max\n"})
	r.group("blkio/croft-run-1", map[string]string{"cgroup.procs": ""})
	r.group("systemd", map[string]string{"cgroup.procs": "1\n"})
	all := []Hierarchy{
		{filepath.Join(r.dir, "memory"), filepath.Join(r.dir, "memory/jail"), "memory"},
		{filepath.Join(r.dir, "pids"), filepath.Join(r.dir, "pids"), "pids"},
		{filepath.Join(r.dir, "blkio"), filepath.Join(r.dir, "blkio"), "blkio"},
		{filepath.Join(r.dir, "systemd"), filepath.Join(r.dir, "systemd"), "name=systemd"},
	}
	seat := settle(all, "croft-run-1", wanted, os.Getpid())
	r.is("memory/jail/croft-run-1/memory.limit_in_bytes", "1073741824")
	r.is("pids/croft-run-1/pids.max", "512")
	if !slices.Equal(seat.Missing, []string{"io weight"}) {
		t.Errorf("it is %+v", seat)
	}
	if got, _ := os.ReadDir(filepath.Join(r.dir, "systemd")); len(got) != 1 {
		t.Errorf("a hierarchy that limits nothing has %v", got)
	}
	if got := seat.Group.Events(); got != (Events{OOMKills: 3, AtLimit: true}) {
		t.Errorf("the kernel did %+v", got)
	}
	if got := seat.Group.Memory(); got != 3000 {
		t.Errorf("it takes %d", got)
	}
}

func TestEventsOfVersion2(t *testing.T) {
	r := newTree(t)
	r.group("", map[string]string{"cgroup.controllers": "memory\n"})
	r.group("x", map[string]string{"memory.events": "low 0\nhigh 0\nmax 9\noom 1\noom_kill 2\noom_group_kill 0\n", "memory.current": "5000\n", "memory.stat": "anon 1\ninactive_file 6000\n"})
	g := Group{[]place{{Hierarchy{Point: r.dir, Group: r.dir}, filepath.Join(r.dir, "x")}}}
	if got := g.Events(); got != (Events{OOMKills: 2, AtLimit: true}) {
		t.Errorf("the kernel did %+v", got)
	}
	if g.Memory() != 0 {
		t.Errorf("it takes %d", g.Memory())
	}
}

// TestBoundHeap expects two thirds of the ceiling, and nothing else changed.
func TestBoundHeap(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	r := newTree(t)
	r.group("", map[string]string{"cgroup.controllers": "memory\n"})
	seatWith := func(most string) *Seat {
		r.group("x", map[string]string{"memory.max": most})
		return &Seat{Group: Group{[]place{{Hierarchy{Point: r.dir, Group: r.dir}, filepath.Join(r.dir, "x")}}}}
	}
	for _, c := range []struct {
		name, most, environment string
		want                    int64
	}{
		{"no ceiling", "max\n", "", before},
		{"the environment says so", "805306368\n", "1GiB", before},
		{"a ceiling of 768 MiB", "805306368\n", "", 512 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", c.environment)
			seatWith(c.most).BoundHeap()
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("the heap is bounded to %d, want %d", got, c.want)
			}
		})
	}
	(&Seat{}).BoundHeap()
}

// A process in a group of its own, in real control groups, isn't alone with its parent.
func TestDescends(t *testing.T) {
	if !descends(os.Getpid(), os.Getppid()) || descends(os.Getppid(), os.Getpid()) || descends(0, os.Getpid()) || descends(1, os.Getpid()) {
		t.Error("who has started whom is mistaken")
	}
}
