// Package nodetest starts real nodes and explorers, from their binaries, for
// tests and benchmarks, as httptest starts servers. Everything that it makes is
// below one folder of its own, and is gone when the test ends, however it ends.
package nodetest

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
)

// Binaries are the programs under test.
type Binaries struct {
	Croftd   string
	Explorer string
	Croft    string
}

// Build builds the programs into dir, and croft-init and zdb beside them, from the
// module that the test is in.
func Build(ctx context.Context, dir string, flags ...string) (Binaries, error) {
	args := append([]string{"build"}, flags...)
	args = append(args, "-o", dir+"/", "github.com/croft-edge/croft/cmd/croftd", "github.com/croft-edge/croft/cmd/explorer", "github.com/croft-edge/croft/cmd/croft")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	err := cmd.Run()
	if err == nil {
		// croftd finds them beside itself. They run in containers: they are static.
		first := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/",
			"github.com/croft-edge/croft/cmd/croft-init", "github.com/croft-edge/croft/cmd/zdb")
		first.Env, first.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		err = first.Run()
	}
	return Binaries{Croftd: filepath.Join(dir, "croftd"), Explorer: filepath.Join(dir, "explorer"), Croft: filepath.Join(dir, "croft")}, err
}

// World is one test's folder, explorer and nodes.
type World struct {
	testing.TB
	Binaries
	// Dir holds all that the world makes.
	Dir string
	// URL is the explorer's, Client a client of it.
	URL    string
	Client *explorer.Client
	// User signs the world's reservations.
	User sign.KeyPair
	// Namespace is the file of the network namespace that the explorer, and
	// nodes that are made from now on, run in; empty is the test's own.
	Namespace string
	// ListenIP is where the explorer listens.
	ListenIP string

	mu        sync.Mutex
	processes []*Process
	nodes     []*Node
	after     []func()
	explorer  *Process
}

// New makes a world without an explorer. It needs root.
func New(tb testing.TB, b Binaries) *World {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Fatal("needs root: nodes make loop devices, btrfs pools and mounts")
	}
	// /var/tmp is on a disk, and the name is short: sockets' paths are.
	dir, err := os.MkdirTemp("/var/tmp", "croft-")
	if err != nil {
		tb.Fatal(err)
	}
	// The root of a container's user namespace walks through it.
	if err := os.Chmod(dir, 0o711); err != nil {
		tb.Fatal(err)
	}
	user, err := sign.Generate()
	if err != nil {
		tb.Fatal(err)
	}
	w := &World{TB: tb, Binaries: b, Dir: dir, User: user, ListenIP: "127.0.0.1"}
	tb.Cleanup(w.close)
	if err := os.Mkdir(w.images(), 0o755); err != nil {
		tb.Fatal(err)
	}
	return w
}

// Path is a path in the world's folder.
func (w *World) Path(name ...string) string {
	return filepath.Join(append([]string{w.Dir}, name...)...)
}

// close ends every process and takes every mount and loop device away.
func (w *World) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.processes {
		p.Kill()
	}
	for _, n := range w.nodes {
		n.containerDown()
		n.networkDown()
		n.removeGroups()
	}
	w.removeGroup("explorer", w.Path("explorer.db"))
	for _, f := range w.after {
		f()
	}
	if w.Failed() {
		w.showLogs()
	}
	if err := TakeDown(w.Dir); err != nil {
		w.Errorf("%s stays: %v", w.Dir, err)
		return
	}
	if err := os.RemoveAll(w.Dir); err != nil {
		w.Error(err)
	}
}

// AfterKill calls f at the end of the test, when all processes have ended.
func (w *World) AfterKill(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = append(w.after, f)
}

// showLogs prints the end of each process's log.
func (w *World) showLogs() {
	const most = 6000
	for _, p := range w.processes {
		raw, err := os.ReadFile(p.Log)
		if err != nil {
			continue
		}
		w.Logf("--- the end of %s\n%s", p.Log, raw[max(0, len(raw)-most):])
	}
}

// StartExplorer starts the world's explorer, again on the same address when it
// had one, and waits until it answers.
func (w *World) StartExplorer(args ...string) {
	w.Helper()
	file := w.Path("explorer.address")
	_ = os.Remove(file)
	listen := w.ListenIP + ":0"
	if w.URL != "" {
		listen = strings.TrimPrefix(w.URL, "http://")
	}
	args = append([]string{"--listen", listen, "--port-file", file, "--db", w.Path("explorer.db"), "--address-rate", "0"}, args...)
	program := w.Explorer
	if w.Namespace != "" {
		program, args = "nsenter", append([]string{"--net=" + w.Namespace, w.Explorer}, args...)
	}
	w.explorer = w.Start("explorer", program, args...)
	w.Until(20*time.Second, "the explorer answers", func() bool {
		w.explorer.MustRun()
		raw, err := os.ReadFile(file)
		if err != nil || len(raw) == 0 {
			return false
		}
		w.URL = "http://" + strings.TrimPrefix(strings.TrimSpace(string(raw)), "http://")
		transport := &http.Transport{DialContext: w.DialFrom(w.Namespace)}
		client, err := explorer.NewClient(explorer.Config{URL: w.URL, Timeout: 20 * time.Second, Transport: transport})
		if err != nil {
			w.Fatal(err)
		}
		if w.Client != nil {
			w.Client.Close()
		}
		w.Client = client
		_, err = client.Info(w.Context())
		return err == nil
	})
}

// StopExplorer stops the explorer in order; KillExplorer at once.
func (w *World) StopExplorer() { w.explorer.Stop() }

// KillExplorer kills the explorer.
func (w *World) KillExplorer() { w.explorer.Kill() }

// showNodes prints what the running nodes say of themselves.
func (w *World) showNodes() {
	w.mu.Lock()
	nodes := slices.Clone(w.nodes)
	w.mu.Unlock()
	for _, n := range nodes {
		if n.Process == nil || !n.Running() {
			continue
		}
		out, err := n.TryCroftd("status")
		w.Logf("--- %s now (%v)\n%s", n.name, err, out)
	}
}

// Until asks again and again until ok, and fails the test after limit.
func (w *World) Until(limit time.Duration, what string, ok func() bool) {
	w.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			w.showNodes()
			w.Fatalf("not within %s: %s", limit, what)
		}
		<-tick.C
	}
}
