package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/command"
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/parts"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/statesocket"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/plane"
)

// croftd runs a command as a shell would.
func croftd(args ...string) (status int, out, errs string) {
	var stdout, stderr bytes.Buffer
	status = command.Main(node.Version{Version: "v9", Commit: "abc"}, modules.All(), append([]string{"croftd"}, args...), &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// TestExitStatus is the specification of the exit statuses.
func TestExitStatus(t *testing.T) {
	dir := t.TempDir()
	here := []string{"--state-dir", filepath.Join(dir, "s"), "--run-dir", filepath.Join(dir, "r")}
	with := func(args ...string) []string { return append(args, here...) }
	for _, c := range []struct {
		name   string
		args   []string
		status int
		out    string
		errs   string
	}{
		{"help", []string{"help"}, 0, "croftd - the node", ""},
		{"nothing", nil, 0, "COMMANDS", ""},
		{"version", []string{"version"}, 0, "croftd v9 (abc)\n", ""},
		{"version as json", []string{"version", "-o", "json"}, 0, `"version":"v9"`, ""},
		{"unknown command", []string{"dance"}, 2, "", `cannot run "dance": no such command`},
		{"unknown flag", []string{"run", "--no-such"}, 2, "", "flag provided but not defined: -no-such"},
		{"bad value", []string{"run", "--heartbeat", "soon"}, 2, "", `cannot use heartbeat = "soon" (from flag --heartbeat)`},
		{"no such file", []string{"config", "--config", dir + "/no.yaml"}, 2, "", "cannot read the configuration"},
		{"argument", []string{"run", "now"}, 2, "", `cannot use "now": croftd run takes no arguments`},
		{"bus with run", []string{"run", "--bus", "redis://127.0.0.1:1"}, 2, "", "cannot use bus with croftd run"},
		{"module without bus", []string{"storage"}, 2, "", "cannot run storage without bus"},
		{"not running", with("status"), 4, "", "no node is running here"},
		{"not running, store", with("store", "accept-older"), 4, "", "no node is running here"},
		{"not running, store again", with("store", "refuse-older"), 4, "", "no node is running here"},
		{"bad format", with("status", "-o", "xml"), 2, "", "it must be table or json"},
		{"config format", with("config", "-o", "xml"), 2, "", "it must be yaml or json"},
		{"evict what", with("evict"), 2, "", "cannot evict: an ID is wanted"},
		{"evict sure?", append(with("evict"), "1-1"), 5, "", "cannot evict 1-1: pass --yes"},
		{"evict two", append(with("evict"), "1-1", "2-1", "--yes"), 2, "", `"2-1" is too much`},
		{"evict, nobody there", append(with("evict"), "1-1", "--yes"), 4, "", "no node is running here"},
		{"store restore, from nowhere", with("store", "restore"), 2, "", `Required flag "from" not set`},
		{"store restore, without a key", with("store", "restore", "--from", "fs:///no/such"), 5, "", "this machine has no key of a node"},
		{"store restore, by recovery", with("store", "restore", "--from", "fs:///no/such", "--recovery-seed", "/no/such"), 1, "", `the node's ID is ""`},
		{"mirror-replace", with("store", "mirror-replace"), 2, "", "one INSTANCE is wanted"},
		{"store what", []string{"store"}, 2, "", "croftd store accept-older, refuse-older, restored, restore or mirror-replace"},
		{"destroy what", with("storage", "destroy"), 2, "", "pass either --pool NAME"},
		{"destroy both", with("storage", "destroy", "--all", "--pool", "x", "--yes"), 2, "", "pass either --pool NAME"},
		{"carry what", []string{"carrier"}, 2, "", "name one, as croftd carrier wg or croftd carrier log"},
		{"carry no such", []string{"carrier", "stones"}, 2, "", `cannot run "stones": no such command; see croftd carrier help`},
		{"carry with argument", with("carrier", "wg", "now")[:3], 2, "", `cannot use "now": croftd carrier wg takes no arguments`},
		{"carry log level", []string{"carrier", "wg", "--run-dir", filepath.Join(dir, "r"), "--log-level", "loud"}, 2, "", `cannot use log-level = "loud"`},
		{"carry logs with argument", []string{"carrier", "log", "now"}, 2, "", `cannot use "now": croftd carrier log takes no arguments`},
		{"carry logs nowhere", []string{"carrier", "log", "--dir", "logs"}, 2, "", `cannot use dir = "logs": it must be an absolute path`},
		{"help of carrier", []string{"help"}, 0, "carrier", ""},
		{"destroy sure?", with("storage", "destroy", "--all"), 5, "", "cannot destroy all pools: pass --yes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out, errs := croftd(c.args...)
			if status != c.status || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) {
				t.Fatalf("status %d, want %d\nout: %s\nerr: %s", status, c.status, out, errs)
			}
			if c.status != 0 && (!strings.HasPrefix(errs, "croftd: ") || strings.Count(errs, "\n") != 1) {
				t.Errorf("not one line that begins with croftd: %q", errs)
			}
		})
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("something was made: %v %v", left, err)
	}
}

func TestConfigCommandShowsFlagsOfEachKind(t *testing.T) {
	t.Setenv("CROFT_LOG_LEVEL", "warn")
	t.Setenv("CROFT_NO_SUCH", "x")
	status, out, errs := croftd("config", "--accept-signature-v1", "--disk", "SSD:/dev/a", "--disk", "HDD:/dev/b", "--pool-type=HDD", "-o", "json")
	if status != 0 {
		t.Fatal(errs)
	}
	var shown []config.Shown
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		t.Fatal(err)
	}
	for _, want := range []config.Shown{
		{Name: "accept-signature-v1", Value: "true", Source: "flag --accept-signature-v1"},
		{Name: "disk", Value: "SSD:/dev/a,HDD:/dev/b", Source: "flag --disk"},
		{Name: "pool-type", Value: "HDD", Source: "flag --pool-type"},
		{Name: "log-level", Value: "warn", Source: "environment CROFT_LOG_LEVEL"},
		{Name: "heartbeat", Value: "1m", Source: "default"},
	} {
		if !slices.Contains(shown, want) {
			t.Errorf("%+v isn't in %s", want, out)
		}
	}
	if !strings.Contains(errs, "environment variable ignored: CROFT_NO_SUCH isn't a setting") {
		t.Errorf("the unknown variable isn't named: %q", errs)
	}
	name := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(name, []byte("heartbeat: 3s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CROFT_CONFIG", name)
	if _, out, _ := croftd("config"); !strings.Contains(out, "heartbeat: 3s # "+name+" line 1\n") {
		t.Errorf("CROFT_CONFIG isn't followed:\n%s", out)
	}
}

// node9 is a fake node that shows a status and carries orders out.
type node9 struct {
	mu      sync.Mutex
	evicted []string
	err     error
}

// CarryOut implements plane.Orders.
func (n *node9) CarryOut(_ context.Context, order work.OrderSpec) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if order.Kind == work.Evict {
		n.evicted = append(n.evicted, order.Target)
	}
	return "the answer to " + order.Kind, n.err
}

// running serves n's state, of those resources, and returns the flags that lead to it.
func running(t *testing.T, n *node9, all ...resource.Resource) ([]string, state.State) {
	t.Helper()
	dir := t.TempDir()
	p, err := plane.Open(plane.Config{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	p.Add(plane.NewEngine(plane.EngineConfig{Orders: n, ClockChanged: func() {}, Log: zerolog.Nop()}))
	p.AddQueued(plane.OrderCleaner())
	for _, r := range all {
		if err := p.State().Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	s, err := statesocket.Listen(t.Context(), statesocket.Config{Path: filepath.Join(dir, "state.sock"), State: p.State(), Check: plane.CheckOrder, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	for _, run := range []func(context.Context) error{p.Run, s.Run} {
		go func() { done <- run(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	return []string{"--run-dir", dir}, p.State()
}

func TestStatusForPeopleAndPrograms(t *testing.T) {
	now := time.Now()
	next := now.Add(time.Minute)
	n := &node9{}
	flags, st := running(t, n,
		host.NewNodeConfig(host.NodeConfigSpec{NodeID: "NODE", Version: "v9", Commit: "abc", Started: now.Add(-time.Hour)}),
		host.NewStore(host.StoreSpec{Restored: true, Undelivered: 1}),
		host.NewExplorer(host.ExplorerSpec{URL: "http://explorer"}),
		host.NewClock(host.ClockSpec{Now: now, Read: now, Trusted: true, Level: "stop", Source: "explorer", Uptime: 90061}),
		parts.NewPool(node.Pool{Name: "ssd0", DiskType: workload.SSD, Total: 4 << 30, Reserved: 1 << 30, Path: "/run/croft/pools/ssd0", Remounted: 2}),
		parts.NewBrokenPool(node.BrokenPool{Name: "hdd1", Cause: "bad superblock"}),
		shown(work.WorkloadSpec{ID: "1-1", Type: workload.TypeVolume, User: "USERUSERUSER", Phase: "deployed", State: "ok", Delivered: true, Attempts: 1, Expires: now,
			Restored: 3, Drift: &work.Drift{At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), What: "its bridge\nis gone"}}),
		shown(work.WorkloadSpec{ID: "2-1", Type: workload.TypeVolume, Phase: "retry", Attempts: 3, Error: "the disk\nis full", NextAttempt: next, Expires: now, Pending: "provision"}),
		work.NewOrphan(work.OrphanSpec{Type: workload.TypeVolume, ID: "9-1", Since: now}),
		parts.NewStream(node.DebugInfo{ID: "4-1", User: "READERREADER", Host: "fd00::7", Port: 6379, Channel: "my-logs", Sent: 12345, Dropped: 678, LastError: "connection refused"}),
		parts.NewContainer(node.ContainerInfo{ID: "5-1", User: "USERUSERUSER", Image: "sha256:0123456789abcdef0123456789abcdef", State: node.ContainerRunning, PID: 4711}),
		parts.NewContainer(node.ContainerInfo{ID: "6-1", State: node.ContainerWaiting, Restarts: 41, ExitCode: 137, Ended: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC).UnixNano(),
			Cause: "cannot start: no such file", Drift: "its mount /data is gone", LastLog: []string{"one\x1b[2Jtwo", "three\tfour"}}),
		parts.NewContainer(node.ContainerInfo{ID: "zdb-ssd0-user", User: node.OwnUser, State: node.ContainerRunning, PID: 8125, Restarts: 2}),
		parts.NewImage(node.Image{Label: "5-1", Reference: "docker://r.example/web:1", Digest: "sha256:0123456789abcdef0123456789abcdef", Size: 3 << 20, Ready: true}),
		parts.NewImage(node.Image{Label: "7-1", Reference: "docker://r.example/db:1", Done: 3 << 19, Total: 80 << 20}),
	)
	status, out, errs := croftd(append([]string{"status"}, flags...)...)
	if status != 0 {
		t.Fatal(errs)
	}
	for _, want := range []string{
		"NODE", "up 1h0m", "pools: broken: hdd1 (bad superblock)", "explorer: the explorer hasn't answered yet",
		"ssd0", "4.0 GiB", "/run/croft/pools/ssd0 (unmounted from outside and mounted again, times: 2)", "USERUSER…", "the disk is full; pending: provision, next attempt ",
		"orphan", "a label without a record", "RESTORED", "3, last 2026-01-02T03:04:05Z: its bridge is gone",
		"[fd00::7]:6379", "my-logs", "12345", "678", "READERRE…", "connection refused",
		"4711", "41", "137, 2026-01-02T03:04:06Z", "cannot start: no such file", "its mount /data is gone", "the last lines of 6-1:",
		"trusted: level stop, from explorer, up 25h1m", "one.[2Jtwo", "three four",
		"OWN CONTAINER", "zdb-ssd0-user", "8125",
		"sha256:0123456789ab ", "docker://r.example/web:1", "ready", "1.5 MiB of 80.0 MiB",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if _, err := safe.StateUpdateWithConflicts(t.Context(), st, host.NewClock(host.ClockSpec{}).Metadata(), func(c *host.Clock) error {
		*c.TypedSpec() = host.ClockSpec{Level: "none", Uptime: 61, Why: "it jumped"}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, out, _ = croftd(append([]string{"status"}, flags...)...); !strings.Contains(out, "not trusted: level none, up 1m1s in all: it jumped") {
		t.Errorf("nothing of the clock in doubt in\n%s", out)
	}
	_, out, _ = croftd(append([]string{"status", "-o", "json"}, flags...)...)
	var back nodestatus.Status
	if err := json.Unmarshal([]byte(out), &back); err != nil || back.NodeID != "NODE" || len(back.Workloads) != 2 {
		t.Fatalf("%v in %s", err, out)
	}
}

func shown(s work.WorkloadSpec) *work.Workload {
	r := work.NewWorkload(s.ID)
	*r.TypedSpec() = s
	return r
}

func TestEvictAsPeopleWriteIt(t *testing.T) {
	n := &node9{}
	flags, _ := running(t, n)
	for _, args := range [][]string{{"--yes", "1-1"}, {"1-1", "--yes"}} {
		if status, _, errs := croftd(append(append([]string{"evict"}, flags...), args...)...); status != 0 {
			t.Fatalf("%v: %s", args, errs)
		}
	}
	if !slices.Equal(n.evicted, []string{"1-1", "1-1"}) {
		t.Fatalf("evicted %v", n.evicted)
	}
	n.err = node.Errorf(node.Refused, "cannot evict 1-1: it is ended")
	status, _, errs := croftd(append(append([]string{"evict"}, flags...), "1-1", "--yes")...)
	if status != command.ExitRefused || errs != "croftd: cannot evict 1-1: it is ended\n" {
		t.Fatalf("%d %q", status, errs)
	}
}
