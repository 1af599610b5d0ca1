package daemon

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
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

// load makes the configuration of a node in a folder of the test's own; its pools are removed when the
// test ends.
func load(t *testing.T, flags map[string]string) config.Config {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "croft-d-")
	if err != nil {
		t.Fatal(err)
	}
	// The root of a container's user namespace traverses it.
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"state-dir": filepath.Join(dir, "s"), "run-dir": filepath.Join(dir, "r"), "pool-size": "512MiB",
		"health-listen": "127.0.0.1:0", "door-listen": "127.0.0.1:0", "stop-timeout": "1s", "containerd": "own", "container-cgroup": filepath.Base(dir),
	}
	for name, value := range flags {
		all[name] = value
	}
	loaded, err := config.Load(config.From{Modules: module.Settings(modules.All()), Flags: all})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := container.TakeDown(context.Background(), loaded.Config, module.Processes(modules.All())); err != nil {
			t.Error(err)
		}
		// The group of all VMs is there without any.
		if err := cgroup.End(context.Background(), vm.Cgroup(loaded.Config)); err != nil {
			t.Error(err)
		}
		if err := storage.Destroy(context.Background(), loaded.Config, "", true); err != nil {
			t.Errorf("%s stays: %v", dir, err)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return loaded.Config
}

// manager is a fake service manager's socket.
func manager(t *testing.T) *net.UnixConn {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", socket)
	return conn
}

func told(t *testing.T, conn *net.UnixConn, want string) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, err := conn.Read(buf)
	if err != nil || string(buf[:n]) != want {
		t.Fatalf("the service manager was told %q, %v; want %s", buf[:n], err, want)
	}
}

// A node that goes on tells the service manager so, if that asks for it.
func TestServiceManagersWatchdog(t *testing.T) {
	conn := manager(t)
	t.Setenv("WATCHDOG_USEC", "600000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	cfg := load(t, map[string]string{"health-listen": "none"})
	go func() {
		done <- Run(ctx, Config{Config: cfg, Process: module.Whole, Modules: modules.All(), Log: zerolog.Nop()})
	}()
	var told []string
	var ready time.Time
	for last := time.Now(); ready.IsZero() || time.Since(ready) < 2*time.Second; {
		if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64)
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("after %q: %v", told, err)
		}
		told = append(told, string(buf[:n]))
		switch string(buf[:n]) {
		case "READY=1":
			ready = time.Now()
		case "WATCHDOG=1":
			if gone := time.Since(last); !ready.IsZero() && gone > 600*time.Millisecond {
				t.Errorf("it was told after %s", gone)
			}
			last = time.Now()
		}
	}
	if n := len(told); n < 7 {
		t.Errorf("it was told only %q", told)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestStoppedNodeLeavesNothingRunning runs a whole node in this process.
func TestStoppedNodeLeavesNothingRunning(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags map[string]string
		why   string
	}{
		{"without an explorer", nil, "no explorer"},
		{"with one that is away", map[string]string{"explorer": "http://127.0.0.1:1"}, ""},
		{"without a bus for others, without health", map[string]string{"bus-listen": "none", "health-listen": "none"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			already := goleak.IgnoreCurrent()
			conn := manager(t)
			cfg := load(t, c.flags)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				done <- Run(ctx, Config{Config: cfg, Process: module.Whole, Modules: modules.All(), Version: node.Version{Version: "v9"}, Log: zerolog.Nop()})
			}()
			told(t, conn, "READY=1")
			shown(t, cfg.StateSocket)
			cancel()
			told(t, conn, "STOPPING=1")
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("it stopped with %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it didn't stop")
			}
			// Processes that outlive the node are its children, and a goroutine waits for each.
			goleak.VerifyNone(t, already, goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"))
			left, err := os.ReadDir(cfg.RunDir)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range left {
				if strings.HasSuffix(entry.Name(), ".sock") {
					t.Errorf("%s is left behind", entry.Name())
				}
			}
		})
	}
}

// shown waits until the node shows itself and its pool.
func shown(t *testing.T, socket string) {
	t.Helper()
	if err := registry.Register(); err != nil {
		t.Fatal(err)
	}
	client, err := statesocket.Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for deadline := time.Now().Add(time.Minute); ; {
		s, err := nodestatus.Read(t.Context(), client)
		_, ready := safe.StateGetByID[*host.Readiness](t.Context(), client, host.Node)
		_, room := safe.StateGetByID[*host.Capacity](t.Context(), client, host.Node)
		if err == nil && ready == nil && room == nil && s.Version == "v9" && s.OneProcess && len(s.Storage.Pools) == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("status %+v, %v; readiness %v, capacity %v", s, err, ready, room)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestFailedStartStopsStartedParts(t *testing.T) {
	already := goleak.IgnoreCurrent()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg := load(t, map[string]string{"health-listen": taken.Addr().String()})
	err = Run(t.Context(), Config{Config: cfg, Process: module.Whole, Modules: modules.All(), Log: zerolog.Nop()})
	if err == nil || !strings.Contains(err.Error(), "cannot listen on health-listen "+taken.Addr().String()) {
		t.Errorf("got %v", err)
	}
	goleak.VerifyNone(t, already, goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"))
}

func TestStopWhileWaitingForModules(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := &daemon{Config: Config{Log: zerolog.Nop()}}
	asked := 0
	err := d.waitFor(ctx, "nobody", func(context.Context) error {
		if asked++; asked == 3 {
			cancel()
		}
		return node.Errorf(node.Transient, "no answer")
	})
	if err == nil || err.Error() != "cannot wait for nobody: context canceled" || asked != 3 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}
