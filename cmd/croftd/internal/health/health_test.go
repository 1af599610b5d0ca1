package health_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/cmd/croftd/internal/health"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// well is the status of a healthy node.
func well(now time.Time) nodestatus.Status {
	return nodestatus.Status{
		NodeConfigSpec: host.NodeConfigSpec{NodeID: "n", Version: "v1", Commit: "abc"}, Adopted: true,
		Store:         host.StoreSpec{Birth: "b", Born: now, AcceptOlder: true, Records: map[string]int{"deployed": 2, "retry": 1}},
		Clock:         host.ClockSpec{Now: now, Trusted: true, Level: "remove", Source: "ntp"},
		Explorer:      host.ExplorerSpec{URL: "http://e", LastContact: &now},
		Modules:       []host.ModuleSpec{{Name: "storage"}, {Name: "identityd"}},
		Storage:       nodestatus.Storage{Pools: []node.Pool{{Name: "ssd0", DiskType: workload.SSD, Total: 100, Used: 10, Reserved: 40}}},
		Counters:      workload.ProvisionCounters{Volume: 2},
		Containers:    []node.ContainerInfo{{State: node.ContainerRunning, Restarts: 3}, {State: node.ContainerRunning}, {State: node.ContainerWaiting, Restarts: 4}},
		OwnContainers: []node.ContainerInfo{{State: node.ContainerRunning, Restarts: 5}},
		Image:         node.ImageStatus{Images: 2, Size: 77},
		ZDB:           []node.ZDBServer{{Container: "zdb-ssd0-user", Namespaces: 5}},
		Workloads: []work.WorkloadSpec{
			{ID: "1-1", Phase: "deployed", Attempts: 1}, {ID: "2-1", Phase: "deployed"},
			{ID: "3-1", Phase: "retry", Attempts: 4},
		},
	}
}

// lacks is what a module tells of the kernel.
func lacks(tried bool, all ...node.KernelLack) func(*nodestatus.Status) {
	return func(s *nodestatus.Status) { s.Modules[0].Kernel = &node.KernelState{Tried: tried, Lacks: all} }
}

// TestReadinessCauses is the specification of /readyz.
func TestReadinessCauses(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name   string
		change func(*nodestatus.Status)
		check  string
		level  host.Level
		detail string
	}{
		{"nothing", func(*nodestatus.Status) {}, "explorer", host.Good, "in contact"},
		{"restoring", func(s *nodestatus.Status) { s.Adopted = false }, "restore", host.Failing, "still being restored"},
		{"quarantine", func(s *nodestatus.Status) { s.Store.Quarantined = []string{"1-1.json"} }, "store", host.Warning, "1 files could not be read and are in quarantine: 1-1.json"},
		{"many in quarantine", func(s *nodestatus.Status) { s.Store.Quarantined = strings.Split("abcdefgh", "") }, "store", host.Warning, "a, b, c, d, e, …"},
		{"birth", func(s *nodestatus.Status) { s.Store.AcceptOlder = false }, "birth", host.Warning, "older reservations are refused until `croftd store accept-older`"},
		{"birth without a date", func(s *nodestatus.Status) { s.Store.AcceptOlder, s.Store.Born = false, time.Time{} }, "birth", host.Warning, "at a time that isn't known yet"},
		{"clock", func(s *nodestatus.Status) { s.Clock.Trusted, s.Clock.Why = false, "it jumped by 1h" }, "clock", host.Warning, "it jumped by 1h"},
		{"a clock that removes nothing", func(s *nodestatus.Status) { s.Clock.Level, s.Clock.Source = "stop", "start" }, "clock", host.Good, "level stop, from start"},
		{"no explorer", func(s *nodestatus.Status) { s.Explorer = host.ExplorerSpec{} }, "explorer", host.Warning, "no explorer is configured"},
		{"not yet", func(s *nodestatus.Status) { s.Explorer.LastContact = nil }, "explorer", host.Warning, "hasn't answered yet"},
		{"never", func(s *nodestatus.Status) { s.Explorer.LastContact, s.Explorer.LastError = nil, "refused" }, "explorer", host.Warning, "no contact since the start: refused"},
		{"away", func(s *nodestatus.Status) { old := now.Add(-time.Hour); s.Explorer.LastContact = &old }, "explorer", host.Warning, "last contact 1h0m0s ago"},
		{"module", func(s *nodestatus.Status) { s.Modules[0].Error = "no answer" }, "bus", host.Failing, "storage (no answer)"},
		{"a module that the node can be without", func(s *nodestatus.Status) {
			s.Modules = append(s.Modules, host.ModuleSpec{Name: node.ZDBModule, Error: "no answer"})
		}, "bus", host.Warning, node.ZDBModule + " (no answer)"},
		{"containers whose module doesn't answer", func(s *nodestatus.Status) {
			s.Modules = append(s.Modules, host.ModuleSpec{Name: node.ContainerModule, Error: "it is Failed"})
			s.Container.Error = "an hour ago"
		}, "bus", host.Warning, "container (it is Failed)"},
		{"containers that are switched off", func(s *nodestatus.Status) {
			s.Modules = append(s.Modules, host.ModuleSpec{Name: node.ContainerModule, Phase: "Disabled"})
			s.Container.Error = "gone"
		}, "containers", host.Good, "the module is switched off"},
		{"a module that is switched off", func(s *nodestatus.Status) {
			s.Modules = append(s.Modules, host.ModuleSpec{Name: node.ZDBModule, Phase: "Disabled"})
		}, "bus", host.Good, "but those that are switched off: " + node.ZDBModule},
		{"a mirror that is slow", func(s *nodestatus.Status) {
			s.Mirrors = []host.MirrorSpec{{Instance: "s3-1", Up: true, Complete: true, Lag: 7, Oldest: now.Add(-time.Hour)}}
		}, "mirrors", host.Warning, "s3-1 is 7 files behind: the first of them changed 1h0m0s ago"},
		{"a mirror that is busy", func(s *nodestatus.Status) {
			s.Mirrors = []host.MirrorSpec{{Instance: "s3-1", Up: true, Complete: true, Lag: 7, Oldest: now.Add(-time.Minute)}}
		}, "mirrors", host.Good, "1 have the store"},
		{"broken pool", func(s *nodestatus.Status) {
			s.Storage.BrokenPools = []node.BrokenPool{{Name: "hdd1", Cause: "bad superblock"}}
		}, "pools", host.Warning, "hdd1 (bad superblock)"},
		{"no pool", func(s *nodestatus.Status) {
			s.Storage = nodestatus.Storage{BrokenDevices: []node.BrokenDevice{{Path: "/dev/sda", Cause: "gone"}}}
		}, "pools", host.Failing, "no pool that works: /dev/sda (gone)"},
		{"containerd", func(s *nodestatus.Status) { s.Container.Error = "connection refused" }, "containers", host.Warning, "doesn't answer: connection refused"},
		{"a kernel that wasn't tried", lacks(false), "kernel", host.Good, "not all that croft uses was tried yet"},
		{"a kernel with all", lacks(true), "kernel", host.Good, "it has all that croft uses"},
		{"a kernel that lacks what can be done without", lacks(true, node.KernelLack{Feature: "WireGuard", State: node.KernelDegraded, Effect: "slower"}), "kernel", host.Good, "lacks what croft does without: WireGuard"},
		{"a kernel that lacks something", lacks(false, node.KernelLack{Feature: "WireGuard", State: node.KernelDegraded}, node.KernelLack{Feature: "io weights", State: node.KernelMissing, Effect: "others are slow"}), "kernel", host.Warning, "the kernel lacks: io weights (others are slow)"},
		{"zdb", func(s *nodestatus.Status) { s.ZDB[0].Drift = "it doesn't answer" }, "zdb", host.Warning, "zdb-ssd0-user (it doesn't answer)"},
		{"undelivered", func(s *nodestatus.Status) { s.Undelivered = 3 }, "results", host.Warning, "3 results wait"},
		{"a socket", func(s *nodestatus.Status) { s.Unserved = []string{"debug socket: it is a folder"} }, "sockets", host.Warning, "debug socket: it is a folder"},
		{"orphans", func(s *nodestatus.Status) { s.Orphans = []work.OrphanSpec{{Type: workload.TypeVolume, ID: "9-1"}} }, "orphans", host.Warning, "volume 9-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := well(now)
			c.change(&s)
			r := health.Judge(s, now, modules.All())
			if r.Ready != (c.level != host.Failing) {
				t.Errorf("ready is %v with a check that is %s", r.Ready, c.level)
			}
			for _, check := range r.Checks {
				switch {
				case check.Name == c.check && (check.Level != c.level || !strings.Contains(check.Detail, c.detail)):
					t.Errorf("got %+v, want %s %q", check, c.level, c.detail)
				case check.Name != c.check && check.Level != host.Good:
					t.Errorf("%+v isn't what was changed", check)
				}
			}
		})
	}
}

// source is a status that a test can change.
type source struct {
	mu     sync.Mutex
	status nodestatus.Status
	err    error
	// stuck is what the engine stands at.
	stuck error
}

func (s *source) alive(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stuck
}

func (s *source) read(context.Context) (nodestatus.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.err
}

func (s *source) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func serve(t *testing.T, s *source) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "health")
	server, err := health.Listen(t.Context(), health.Config{Modules: modules.All(), Listen: "127.0.0.1:0", File: file, Alive: s.alive, Status: s.read, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(raw)); got != server.Address() {
		t.Fatalf("the file says %q, the address is %q", got, server.Address())
	}
	return "http://" + server.Address()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestHealthzReadyz(t *testing.T) {
	s := &source{status: well(time.Now())}
	base := serve(t, s)
	if code, body := get(t, base+"/healthz"); code != 200 || body != "ok\n" {
		t.Fatalf("healthz: %d %q", code, body)
	}
	ready := func() (int, host.ReadinessSpec) {
		code, body := get(t, base+"/readyz")
		var r host.ReadinessSpec
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		return code, r
	}
	if code, r := ready(); code != 200 || !r.Ready || len(r.Checks) < 9 {
		t.Fatalf("%d %+v", code, r)
	}
	s.set(func() { s.status.Modules[0].Error = "gone" })
	if code, r := ready(); code != 503 || r.Ready {
		t.Fatalf("%d %+v", code, r)
	}
	s.set(func() { s.err = errors.New("the store is on fire") })
	if code, r := ready(); code != 503 || r.Ready || r.Checks[0].Detail != "the node's status can't be read" {
		t.Fatalf("%d %+v", code, r)
	}
	if code, _ := get(t, base+"/healthz"); code != 200 {
		t.Fatal("a process that is alive said it isn't")
	}
	s.set(func() { s.stuck = errors.New("cannot go on with the engine") })
	if code, body := get(t, base+"/healthz"); code != 503 || body != "cannot go on with the engine\n" {
		t.Fatalf("healthz of a node whose engine is stuck: %d %q", code, body)
	}
	s.set(func() { s.stuck = nil })
	if code, body := get(t, base+"/healthz"); code != 200 || body != "ok\n" {
		t.Fatalf("healthz of one whose engine goes on again: %d %q", code, body)
	}
}

func TestMetrics(t *testing.T) {
	s := &source{status: well(time.Unix(1000, 5e8))}
	s.status.VMs = []node.VMInfo{{ID: "7-1", State: node.VMRunning, Restarts: 3}}
	s.status.Drifts = map[string]uint64{string(workload.TypeNetwork): 7}
	s.status.Store.Refused = map[string]uint64{"forged": 9}
	base := serve(t, s)
	code, body := get(t, base+"/metrics")
	if code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	for _, line := range []string{
		`croft_build_info{commit="abc",version="v1"} 1`,
		`croft_ready 1`,
		`croft_check{check="explorer"} 1`,
		`croft_workloads{type="volume"} 2`,
		`croft_workloads{type="kubernetes"} 0`,
		`croft_records{phase="deployed"} 2`,
		`croft_records{phase="retry"} 1`, `croft_records{phase="blocked"} 0`,
		`croft_attempts 4`,
		`croft_undelivered_results 0`,
		`croft_clock_trusted 1`, `croft_clock_level 2`,
		`croft_explorer_last_contact_seconds 1000.5`,
		`croft_pool_bytes{pool="ssd0",type="SSD",what="reserved"} 40`,
		`croft_containers{state="running"} 2`, `croft_containers{state="waiting"} 1`, `croft_containers{state="broken"} 0`, `croft_container_restarts 7`,
		`croft_own_containers{state="running"} 1`, `croft_own_containers{state="waiting"} 0`, `croft_own_container_restarts 5`,
		`croft_images 2`, `croft_image_bytes 77`,
		`croft_zdb_namespaces{container="zdb-ssd0-user"} 5`, `croft_zdb_drifted{container="zdb-ssd0-user"} 0`,
		`croft_vms 1`, `croft_vm_running{id="7-1"} 1`, `croft_vm_restarts_total{id="7-1"} 3`,
		"# TYPE croft_refused_reservations_total counter", `croft_refused_reservations_total{cause="forged"} 9`, `croft_refused_reservations_total{cause="refused"} 0`,
		"# TYPE croft_drift_total counter", `croft_drift_total{type="network"} 7`, `croft_drift_total{type="volume"} 0`,
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("no %q", line)
		}
	}
	for _, m := range health.Metrics(modules.All()) {
		if strings.HasPrefix(m.Name, "croft_mirror_") {
			continue // there is no mirror: see TestMetricsOfMirrors
		}
		if !strings.Contains(body, "# HELP "+m.Name+" "+m.Help+"\n") {
			t.Errorf("no help of %s", m.Name)
		}
	}
	for _, other := range []string{"go_goroutines", "process_resident_memory_bytes"} {
		if !strings.Contains(body, other) {
			t.Errorf("no %s", other)
		}
	}
	s.set(func() { s.err = errors.New("the store is on fire") })
	if code, _ := get(t, base+"/metrics"); code != 500 {
		t.Fatalf("a scrape without a status answered %d", code)
	}
}

// TestMetricsOfMirrors: each mirror has its own, one that lacks nothing is 0 seconds behind, and so is one whose oldest change is of the future,
// because the clock was set back; a node without mirrors has none.
func TestMetricsOfMirrors(t *testing.T) {
	now := time.Now()
	s := &source{status: well(now)}
	base := serve(t, s)
	if _, body := get(t, base+"/metrics"); strings.Contains(body, "croft_mirror_") {
		t.Errorf("a node without mirrors has metrics of them")
	}
	s.set(func() {
		s.status.Mirrors = []host.MirrorSpec{
			{Instance: "s3-1", Up: true, Complete: true},
			{Instance: "fs-2", Lag: 7, Oldest: now.Add(-time.Hour), Error: "no route to host"},
			{Instance: "fs-3", Up: true, Lag: 1, Oldest: now.Add(time.Hour)},
		}
	})
	_, body := get(t, base+"/metrics")
	for _, line := range []string{
		`croft_mirror_up{instance="s3-1"} 1`, `croft_mirror_up{instance="fs-2"} 0`,
		`croft_mirror_lag{instance="s3-1"} 0`, `croft_mirror_lag{instance="fs-2"} 7`,
		`croft_mirror_complete{instance="s3-1"} 1`, `croft_mirror_complete{instance="fs-2"} 0`,
		`croft_mirror_behind_seconds{instance="s3-1"} 0`, `croft_mirror_behind_seconds{instance="fs-3"} 0`,
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("no %q", line)
		}
	}
	_, rest, _ := strings.Cut(body, `croft_mirror_behind_seconds{instance="fs-2"} `)
	text, _, _ := strings.Cut(rest, "\n")
	if behind, err := strconv.ParseFloat(text, 64); err != nil || behind < 3600 || behind > 3660+time.Since(now).Seconds() {
		t.Errorf("it is behind by %q seconds, want 3600 and what the test took", text)
	}
}

func TestAPortInUseIsNamed(t *testing.T) {
	base := serve(t, &source{})
	address := strings.TrimPrefix(base, "http://")
	_, err := health.Listen(t.Context(), health.Config{Modules: modules.All(), Listen: address})
	if err == nil || !strings.Contains(err.Error(), "cannot listen on health-listen "+address) {
		t.Fatalf("got %v", err)
	}
}
