package spec_test

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// on2 picks by the version of cgroups on this machine.
func (c *container) on2(one, two string) string {
	if c.host.Cgroup == 2 {
		return two
	}
	return one
}

// wantLimit checks a file of the container's cgroup on the node, whose value
// is value2 on cgroups of version 2.
func (c *container) wantLimit(controller, file, file2, value, value2 string) {
	c.t.Helper()
	got := c.limit(c.on2(controller, ""), c.on2(file, file2))
	if want := c.on2(value, value2); got != want {
		c.t.Errorf("%s is %q on the node, want %q", c.on2(file, file2), got, want)
	}
}

func TestControlMemory(t *testing.T) {
	c := newContainer(t)
	stop := c.running()
	c.wantLimit("memory", "memory.limit_in_bytes", "memory.max", "67108864", "67108864")
	if c.host.Swap {
		c.wantLimit("memory", "memory.memsw.limit_in_bytes", "memory.swap.max", "67108864", "0")
	}
	stop()
	_, err := tryAsk[string](c, "hog", "128")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 137 {
		t.Errorf("it took 128 MiB of its 64 and ended with %v, want it killed (137)", err)
	}
	if got := ask[string](c, "hog", "32"); got != "all of it" {
		t.Errorf("it took 32 MiB of its 64: %s", got)
	}
}

func TestControlCPU(t *testing.T) {
	c := newContainer(t)
	c.CPU = 2
	stop := c.running()
	c.wantLimit("cpu", "cpu.cfs_quota_us", "cpu.max", "200000", "200000 100000")
	if c.host.Cgroup == 1 {
		c.wantLimit("cpu", "cpu.shares", "", "2048", "")
	}
	stop()
	// A twentieth of a core is more than others leave it on any machine.
	c.change = func(s *specs.Spec) { *s.Linux.Resources.CPU.Quota /= 40 }
	command := c.command("burn", "3000")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	throttled := ""
	for end := time.Now().Add(deadline); throttled == "" && time.Now().Before(end); {
		select {
		case err := <-ended:
			t.Fatalf("it burnt CPU for 3 seconds and was never throttled: %v", err)
		case <-time.After(20 * time.Millisecond):
			throttled = c.throttled()
		}
	}
	if throttled == "" {
		t.Error("it was never throttled")
	}
	if err := <-ended; err != nil {
		t.Errorf("the container's end: %v", err)
	}
}

// throttled is how often the container was, empty for never or not yet there.
func (c *container) throttled() string {
	for _, dir := range c.groups(c.CgroupsPath) {
		for line := range strings.Lines(read(dir + "/cpu.stat")) {
			if n, is := strings.CutPrefix(strings.TrimSpace(line), "nr_throttled "); is && n != "0" {
				return n
			}
		}
	}
	return ""
}

func TestControlPIDs(t *testing.T) {
	c := newContainer(t)
	stop := c.running()
	c.wantLimit("pids", "pids.max", "pids.max", "64", "64")
	stop()
	got := ask[map[string]string](c, "fork", "200")
	if ran, err := strconv.Atoi(got["ran"]); err != nil || ran < 1 || ran >= 64 || got["stopped"] != "EAGAIN" {
		t.Errorf("a fork bomb of 200 with a limit of 64: %v", got)
	}
	c.PIDs = 0
	defer c.running()()
	c.wantLimit("pids", "pids.max", "pids.max", "4096", "4096")
}

func TestControlIOWeight(t *testing.T) {
	c := newContainer(t)
	if !c.host.IOWeight {
		if missing := strings.Join(c.host.Missing(), ","); !strings.Contains(missing, "io weight") {
			t.Errorf("this kernel can't weigh disks, and what is missing is %q", missing)
		}
	}
	c.IOWeight = 300
	defer c.running()()
	if !c.host.IOWeight {
		return
	}
	found := ""
	for _, dir := range c.groups(c.CgroupsPath) {
		for _, file := range []string{"/blkio.bfq.weight", "/blkio.weight", "/io.bfq.weight", "/io.weight"} {
			found += strings.TrimSpace(read(dir+file)) + " "
		}
	}
	if !strings.Contains(found, "300") && !strings.Contains(found, "default ") {
		t.Errorf("its weights are %q, want 300", found)
	}
}

func TestControlRlimits(t *testing.T) {
	c := newContainer(t)
	got := map[string][2]uint64{}
	for _, line := range ask[[]string](c, "rlimits")[1:] {
		name, rest := strings.TrimSpace(line[:25]), strings.Fields(line[25:])
		for i := range 2 {
			n, err := strconv.ParseUint(rest[i], 10, 64)
			if rest[i] == "unlimited" {
				n, err = 1<<64-1, nil
			}
			c.must(err)
			pair := got[name]
			pair[i] = n
			got[name] = pair
		}
	}
	if got["Max core file size"] != [2]uint64{} {
		t.Errorf("core files: %v, want none", got["Max core file size"])
	}
	hard := map[string]uint64{}
	for _, l := range c.host.Rlimits {
		hard[l.Type] = l.Hard
	}
	for name, l := range map[string]struct {
		kind string
		most uint64
	}{
		"Max open files": {"RLIMIT_NOFILE", 1 << 20}, "Max processes": {"RLIMIT_NPROC", 4096}, "Max locked memory": {"RLIMIT_MEMLOCK", 8 << 20},
		"Max pending signals": {"RLIMIT_SIGPENDING", 1 << 20}, "Max msgqueue size": {"RLIMIT_MSGQUEUE", 819_200}, "Max nice priority": {"RLIMIT_NICE", 0}, "Max realtime priority": {"RLIMIT_RTPRIO", 0},
	} {
		if got[name][1] > min(l.most, hard[l.kind]) || got[name][0] > got[name][1] {
			t.Errorf("%s: %v, want at most %d and the node's %d", name, got[name], l.most, hard[l.kind])
		}
	}
}

func TestControlOOMScore(t *testing.T) {
	c := newContainer(t)
	want := min(c.host.OOMScore+500, 1000)
	if status := ask[map[string]string](c, "status"); status["oom_score_adj"] != strconv.Itoa(want) {
		t.Errorf("its oom_score_adj is %s, want %d: before the agent's %d", status["oom_score_adj"], want, c.host.OOMScore)
	}
}
