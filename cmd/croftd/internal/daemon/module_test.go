package daemon_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/command"
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/daemon"
	"github.com/croft-edge/croft/cmd/croftd/internal/daemon/testdata/power"
	"github.com/croft-edge/croft/cmd/croftd/internal/health"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/container"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/storage"
	"github.com/croft-edge/croft/cmd/croftd/internal/module/vm"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/registry"
	"github.com/croft-edge/croft/pkg/statesocket"
)

const howTo = "../../../../docs/how-to/add-a-module.md"

// withPower is the node's modules and the example's: the only line that a new module needs outside its
// folder.
func withPower() []module.Descriptor {
	return append(modules.All(),
		power.Descriptor(),
	)
}

// TestHowToAddAModule checks that the how-to shows the example's folder. With WRITE_DOCS=1 it updates
// the page.
func TestHowToAddAModule(t *testing.T) {
	code, err := os.ReadFile("testdata/power/power.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir("testdata/power")
	if err != nil || len(files) != 1 {
		t.Errorf("the example is %v (%v), want one file", files, err)
	}
	page, err := os.ReadFile(howTo)
	if err != nil {
		t.Fatal(err)
	}
	const from, to = "<!-- power.go: a test compiles and runs this -->\n```go\n", "```\n<!-- /power.go -->"
	before, rest, found := strings.Cut(string(page), from)
	shown, after, closed := strings.Cut(rest, to)
	switch {
	case !found || !closed:
		t.Fatalf("%s has no place for the example", howTo)
	case shown == string(code):
	case os.Getenv("WRITE_DOCS") == "1":
		if err := os.WriteFile(howTo, []byte(before+from+string(code)+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: the example is stale: run this test with WRITE_DOCS=1", howTo)
	}
}

// TestAddedModule runs a node with the example's module: it appears in every part of croftd.
func TestAddedModule(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "croft-d-")
	if err == nil {
		err = os.Chmod(dir, 0o711) // the root of a container's user namespace traverses it
	}
	supply := filepath.Join(dir, "online")
	if err == nil {
		err = os.WriteFile(supply, []byte("0\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]string{
		"state-dir": filepath.Join(dir, "s"), "run-dir": filepath.Join(dir, "r"), "pool-size": "512MiB", "power-supply": supply,
		"health-listen": "127.0.0.1:0", "health-file": filepath.Join(dir, "health"), "door-listen": "none", "stop-timeout": "1s",
		"containerd": "own", "container-cgroup": filepath.Base(dir),
	}
	loaded, err := config.Load(config.From{Modules: module.Settings(withPower()), Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { takeDown(t, loaded.Config, dir) })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- daemon.Run(ctx, daemon.Config{
			Config: loaded.Config, Process: module.Whole, Modules: withPower(), Version: node.Version{Version: "v9"}, Log: zerolog.Nop(),
		})
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	s := started(t, loaded.StateSocket)
	if m := nodestatus.ModuleOf(&s, "power"); m == nil || m.Error != "" || m.State != `{"mains":false}` {
		t.Errorf("the status has %+v", m)
	}
	checks := health.Judge(s, time.Now(), withPower()).Checks
	if !slices.Contains(checks, host.Warn("power", "the machine runs on its battery")) {
		t.Errorf("the checks are %+v", checks)
	}
	address, err := os.ReadFile(flags["health-file"])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, got, want string }{
		{"/metrics", get(t, "http://"+strings.TrimSpace(string(address))+"/metrics"), "croft_power_mains 0\n"},
		{"/readyz", get(t, "http://"+strings.TrimSpace(string(address))+"/readyz"), "the machine runs on its battery"},
		{"croftd status", croftd(t, "status", "--state-socket", loaded.StateSocket), "ON MAINS"},
		{"croftd config", croftd(t, "config"), "power-supply: /sys/class/power_supply/AC/online # default\n"},
		{"croftd help", croftd(t, "help"), "run the power module on --bus: whether the machine runs on mains"},
		{"croftd power down", croftd(t, "power", "down"), ""},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("%s doesn't have %q:\n%s", c.what, c.want, c.got)
		}
	}
}

// takeDown ends the node's remaining processes, and removes its folder.
func takeDown(t *testing.T, c config.Config, dir string) {
	t.Helper()
	if err := container.TakeDown(context.Background(), c, module.Processes(withPower())); err != nil {
		t.Error(err)
	}
	// The group of all VMs is there without any.
	if err := cgroup.End(context.Background(), vm.Cgroup(c)); err != nil {
		t.Error(err)
	}
	if err := storage.Destroy(context.Background(), c, "", true); err != nil {
		t.Errorf("%s stays: %v", dir, err)
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// read reads a running node's status.
func read(ctx context.Context, socket string) (nodestatus.Status, error) {
	if err := registry.Register(); err != nil {
		return nodestatus.Status{}, err
	}
	client, err := statesocket.Dial(ctx, socket)
	if err != nil {
		return nodestatus.Status{}, err
	}
	defer client.Close()
	return nodestatus.Read(ctx, client)
}

// started waits until the node has restored its store, and returns its status.
func started(t *testing.T, socket string) nodestatus.Status {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		s, err := read(t.Context(), socket)
		if err == nil && s.Adopted && len(s.Storage.Pools) > 0 && !slices.ContainsFunc(s.Modules, func(m host.ModuleSpec) bool { return m.Error != "" }) {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("the node doesn't start: %v", err)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// croftd runs a command of a program that includes the example's module.
func croftd(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if status := command.Main(node.Version{Version: "v9"}, withPower(), append([]string{"croftd"}, args...), &out, &errs); status != 0 {
		t.Errorf("croftd %v: status %d: %s", args, status, errs.String())
	}
	return out.String()
}
