package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/containerdtest"
	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/workload"
)

// documented are the limits in the table "| part
// memory |" of docs/security.md.
func documented(t *testing.T) map[string]cgroup.Limits {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]cgroup.Limits{}
	row := regexp.MustCompile("(?m)^\\| `([a-z ]+)` \\|[^|]*\\| (\\d+) MiB \\| (\\d+) \\| (\\d+) \\| (\\d+) \\|")
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		n := [4]uint64{}
		for i, figure := range m[2:] {
			if n[i], err = strconv.ParseUint(figure, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		out[m[1]] = cgroup.Limits{Memory: n[0] << 20, PIDs: n[1], IOWeight: n[2], CPUWeight: n[3]}
	}
	return out
}

// TestCeilings compares the documented limits of croft's own parts with the real control groups of a
// running node.
func TestCeilings(t *testing.T) {
	z := newZDBs(t, "--container-read-rate", "200MiB", "--container-write-ops", "5000")
	r, _ := z.run(nil)
	_, at := z.made(nil)
	box, ok := z.n.OwnContainer(at.Container)
	if !ok {
		t.Fatalf("there is no container %s", at.Container)
	}
	folder := func(name string) string { return filepath.Join(z.n.RunDir(), name) }
	weights := weightsThere(t)
	parts := documented(t)
	for part, where := range map[string]struct {
		pid  int
		name string
	}{
		"run":         {z.n.PID(), cgroup.Name("run", z.n.RunDir())},
		"door":        {z.n.DoorProcess(), cgroup.Name("door", z.n.RunDir())},
		"containerd":  {z.n.Containerd(), cgroup.Name("containerd", folder("containerd"))},
		"carrier wg":  {z.n.Carrier(), carrier.FolderOf(z.n.RunDir(), "wg").Group()},
		"carrier log": {z.n.LogCarrier(), carrier.FolderOf(z.n.RunDir(), "log").Group()},
		"zdb":         {int(box.PID), at.Container},
	} {
		want, ok := parts[part]
		if !ok {
			t.Errorf("docs/security.md has no ceilings of %s", part)
			continue
		}
		if !weights {
			want.IOWeight = 0
		}
		group := cgroup.Of(where.pid, where.name)
		if len(group.Folders()) < 2 {
			t.Errorf("%s, process %d, is in %v only", part, where.pid, group.Folders())
		}
		got := group.Limits(cgroup.Limits{Memory: 1, PIDs: 1, IOWeight: 1, CPUWeight: 1})
		if !weights {
			got.IOWeight = 0
		}
		if got != want {
			t.Errorf("%s is limited to %+v, the documents say %+v", part, got, want)
		}
	}
	// Containers' shims don't count against containerd.
	for _, shim := range containerdtest.Shims(z.n.RunDir()) {
		if len(cgroup.Of(shim, ".shims").Folders()) == 0 {
			t.Errorf("shim %d isn't in the shims' group", shim)
		}
	}
	z.statusShows(parts, weights)
	z.hasRates(int(z.n.WaitRunning(r).PID), r.ID, true)
	z.hasRates(int(box.PID), at.Container, false)
	// Also after a restart.
	z.n.KillTask(r)
	z.Until(nodetest.Soon, "it runs again", func() bool {
		info, ok := z.n.ContainerStatus(r)
		return ok && info.Restarts == 1 && info.PID != 0
	})
	z.hasRates(int(z.n.WaitRunning(r).PID), r.ID, true)
	z.gone(r)
}

// hasRates checks whether the operator's disk rates apply to a container, on the disk of the node's
// pool.
func (z *zdbs) hasRates(pid int, id string, want bool) {
	z.Helper()
	found := ""
	for _, dir := range cgroup.Of(pid, id).Folders() {
		for _, file := range []string{"blkio.throttle.read_bps_device", "blkio.throttle.write_iops_device", "io.max"} {
			if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				found += string(text)
			}
		}
	}
	has := regexp.MustCompile(`(?m)^7:\d+ .*\b209715200\b`).MatchString(found) && regexp.MustCompile(`(?m)^7:\d+ .*\b5000\b`).MatchString(found)
	if has != want || !want && found != "" && strings.Contains(found, "5000") {
		z.Errorf("the rates of %s are %q", id, found)
	}
}

// weightsThere reports whether this machine supports disk weights.
func weightsThere(t *testing.T) bool {
	t.Helper()
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/blkio/*/blkio.weight", "/sys/fs/cgroup/blkio/*/blkio.bfq.weight", "/sys/fs/cgroup/*/io.weight", "/sys/fs/cgroup/*/io.bfq.weight"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, more...)
	}
	return len(found) > 0
}

// statusShows compares the limits in croft status with the documented ones.
func (z *zdbs) statusShows(parts map[string]cgroup.Limits, weights bool) {
	z.Helper()
	seen := []string{}
	for _, c := range z.n.Status().Ceilings {
		seen = append(seen, c.Part)
		want, ok := parts[c.Part]
		if !ok {
			continue
		}
		if c.Memory != want.Memory || c.PIDs != want.PIDs || c.CPUWeight != want.CPUWeight || c.Used == 0 && c.Part != "unpack" || c.OOMKills != 0 {
			z.Errorf("status says %+v, the documents %+v", c, want)
		}
		if missing := slices.Contains(c.Missing, "io weight"); missing == weights {
			z.Errorf("%s misses %v", c.Part, c.Missing)
		}
	}
	for _, part := range []string{"run", "unpack", "containerd", "carrier wg", "carrier log", "all containers"} {
		if !slices.Contains(seen, part) {
			z.Errorf("status says nothing of %s: %v", part, seen)
		}
	}
	if text := z.n.Croftd("status"); !strings.Contains(text, "CAN'T BE LIMITED") || strings.Contains(text, "io weight") == weights {
		z.Errorf("status:\n%s", text)
	}
	if said := strings.Count(z.n.Output(), "some limits of this process can't be set"); said > 1 || (said == 0) != weights {
		z.Errorf("that weights are missing was said %d times", said)
	}
}

// TestCeilingsBite: processes that the kernel kills at their limit come back, and containers run on.
func TestCeilingsBite(t *testing.T) {
	b := newBoxes(t)
	r, url := b.run(nil)
	before := b.n.WaitRunning(r)
	for part, c := range map[string]struct {
		pid  func() int
		name string
	}{
		"containerd":  {b.n.Containerd, cgroup.Name("containerd", filepath.Join(b.n.RunDir(), "containerd"))},
		"carrier log": {b.n.LogCarrier, carrier.FolderOf(b.n.RunDir(), "log").Group()},
		"carrier wg":  {b.n.Carrier, carrier.FolderOf(b.n.RunDir(), "wg").Group()},
	} {
		old := c.pid()
		group := cgroup.Of(old, c.name)
		end := containerdtest.Hog(t, group.Folders())
		b.Until(nodetest.Soon, part+" is killed", func() bool { return group.Events().OOMKills > 0 })
		end()
		b.Until(nodetest.Soon, part+" is back in its group", func() bool {
			pid := c.pid()
			return pid != 0 && pid != old && len(cgroup.Of(pid, c.name).Folders()) > 1
		})
		b.shell.MustGet(url + "/")
		b.Until(nodetest.Soon, "status tells of "+part, func() bool {
			return slices.ContainsFunc(b.n.Status().Ceilings, func(s nodetest.Ceiling) bool { return s.Part == part && s.OOMKills > 0 && s.Memory != 0 })
		})
	}
	if now := b.n.WaitRunning(r); now.PID != before.PID || now.Restarts != 0 {
		t.Errorf("the container was %+v, is %+v", before, now)
	}
	second, _ := b.run(func(c *workload.Container) { c.Network.IPs = addresses("10.1.2.11") })
	b.gone(second)
	b.gone(r)
}
