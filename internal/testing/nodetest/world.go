// Package nodetest starts real nodes and explorers, from their binaries, for tests and benchmarks, as
// httptest starts servers. Everything that it makes is below one folder of its own, and is removed when
// the test ends, whatever its outcome.
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
	// Setup is croftd as users have it, also where Croftd has the race detector: for the commands that
	// only set up and clean up, which then take a fifth of the processor time.
	Setup string
}

// Build builds the programs, with croft-init and zdb beside them, into dir, from the module of the
// test.
func Build(ctx context.Context, dir string, flags ...string) (Binaries, error) {
	args := append([]string{"build"}, flags...)
	args = append(args, "-o", dir+"/", "github.com/croft-edge/croft/cmd/croftd", "github.com/croft-edge/croft/cmd/explorer", "github.com/croft-edge/croft/cmd/croft")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	err := cmd.Run()
	setup := filepath.Join(dir, "setup")
	if err == nil {
		// croftd looks for them beside itself. As they run in containers, they are static.
		err = buildStatic(ctx, dir+"/", "croft-init", "zdb")
	}
	if err == nil {
		err = buildStatic(ctx, setup+"/", "croftd")
	}
	return Binaries{
		Croftd: filepath.Join(dir, "croftd"), Explorer: filepath.Join(dir, "explorer"), Croft: filepath.Join(dir, "croft"),
		Setup: filepath.Join(setup, "croftd"),
	}, err
}

// buildStatic builds programs as make build does.
func buildStatic(ctx context.Context, dir string, programs ...string) error {
	args := []string{"build", "-trimpath", "-ldflags", "-s -w", "-o", dir}
	for _, program := range programs {
		args = append(args, "github.com/croft-edge/croft/cmd/"+program)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	return cmd.Run()
}

// World is one test's folder, explorer and nodes. It is composed of types by subject; a test uses their
// methods as the world's.
type World struct {
	testing.TB
	Binaries
	// Dir holds all files that the world makes.
	Dir string

	*Processes
	*ExplorerServer
	*Images
	*Reservations
	*Traffic

	mu    sync.Mutex
	nodes []*Node
}

// Traffic sends from network namespaces.
type Traffic struct{ testing.TB }

// Images are the images available to the world's nodes, in a folder.
type Images struct {
	testing.TB
	Folder string
}

// Reservations makes signed reservations.
type Reservations struct {
	testing.TB
	// User signs where no other user is given.
	User   sign.KeyPair
	images *Images
}

// ExplorerServer is the world's explorer, and a client of it.
type ExplorerServer struct {
	testing.TB
	// URL is the explorer's URL, Client a client for it.
	URL    string
	Client *explorer.Client
	// Namespace is the file of the network namespace for the explorer and for nodes made from now on;
	// empty is the test's own.
	Namespace string
	// ListenIP is the address that the explorer listens on.
	ListenIP string

	program   string
	dir       string
	processes *Processes
	until     Until
	process   *Process
}

// Soon is the limit of a wait whose length isn't tested: generous, for a machine that has much else
// to do.
const Soon = 3 * time.Minute

// Until polls until ok returns true, and fails the test after limit.
type Until func(limit time.Duration, what string, ok func() bool)

// New makes a world without an explorer. It needs root.
func New(tb testing.TB, b Binaries) *World {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Fatal("needs root: nodes make loop devices, btrfs pools and mounts")
	}
	// /var/tmp is on a disk, and the path is short, because paths of sockets must be.
	dir, err := os.MkdirTemp("/var/tmp", "croft-")
	if err != nil {
		tb.Fatal(err)
	}
	// The root of a container's user namespace traverses it.
	if err := os.Chmod(dir, 0o711); err != nil {
		tb.Fatal(err)
	}
	user, err := sign.Generate()
	if err != nil {
		tb.Fatal(err)
	}
	w := &World{TB: tb, Binaries: b, Dir: dir, Traffic: &Traffic{tb}}
	w.Processes = &Processes{TB: tb, dir: dir}
	w.Images = &Images{TB: tb, Folder: w.Path("images")}
	w.Reservations = &Reservations{TB: tb, User: user, images: w.Images}
	w.ExplorerServer = &ExplorerServer{TB: tb, ListenIP: "127.0.0.1", program: b.Explorer, dir: dir, processes: w.Processes, until: w.Until}
	tb.Cleanup(w.close)
	if err := os.Mkdir(w.Images.Folder, 0o755); err != nil {
		tb.Fatal(err)
	}
	return w
}

// Path is a path in the world's folder.
func (w *World) Path(name ...string) string {
	return filepath.Join(append([]string{w.Dir}, name...)...)
}

// close ends every process and removes every mount and loop device.
func (w *World) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Processes.kill()
	for _, n := range w.nodes {
		vmDown(n)
		n.containerDown()
		n.networkDown()
		removeGroups(n)
	}
	removeGroup(w, "explorer", w.Path("explorer.db"))
	w.Processes.ended()
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

// AfterKill registers f for the end of the test, when all processes have ended.
func (ps *Processes) AfterKill(f func()) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.after = append(ps.after, f)
}

// showLogs prints the end of each process's log.
func (ps *Processes) showLogs() {
	const most = 6000
	for _, p := range ps.processes {
		raw, err := os.ReadFile(p.Log)
		if err != nil {
			continue
		}
		ps.Logf("--- the end of %s\n%s", p.Log, raw[max(0, len(raw)-most):])
	}
}

// StartExplorer starts the world's explorer, a restart on the same address, and waits until it answers.
func (e *ExplorerServer) StartExplorer(args ...string) {
	e.Helper()
	file := filepath.Join(e.dir, "explorer.address")
	_ = os.Remove(file)
	listen := e.ListenIP + ":0"
	if e.URL != "" {
		listen = strings.TrimPrefix(e.URL, "http://")
	}
	args = append([]string{"--listen", listen, "--port-file", file, "--db", filepath.Join(e.dir, "explorer.db"), "--address-rate", "0"}, args...)
	program := e.program
	if e.Namespace != "" {
		program, args = "nsenter", append([]string{"--net=" + e.Namespace, e.program}, args...)
	}
	e.process = e.processes.Start("explorer", program, args...)
	e.until(Soon, "the explorer answers", func() bool {
		e.process.MustRun()
		raw, err := os.ReadFile(file)
		if err != nil || len(raw) == 0 {
			return false
		}
		e.URL = "http://" + strings.TrimPrefix(strings.TrimSpace(string(raw)), "http://")
		transport := &http.Transport{DialContext: dialFrom(e.Namespace)}
		client, err := explorer.NewClient(explorer.Config{URL: e.URL, Timeout: 20 * time.Second, Transport: transport})
		if err != nil {
			e.Fatal(err)
		}
		if e.Client != nil {
			e.Client.Close()
		}
		e.Client = client
		_, err = client.Info(e.Context())
		return err == nil
	})
}

// StopExplorer stops the explorer gracefully.
func (e *ExplorerServer) StopExplorer() { e.process.Stop() }

// KillExplorer kills the explorer.
func (e *ExplorerServer) KillExplorer() { e.process.Kill() }

// showNodes prints the status of the running nodes.
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

// Until polls until ok returns true, and fails the test after limit.
func (w *World) Until(limit time.Duration, what string, ok func() bool) {
	w.Helper()
	begin := time.Now()
	for {
		looked := time.Now()
		if ok() {
			return
		}
		now := time.Now()
		if now.Sub(begin) > limit {
			w.showNodes()
			w.Fatalf("not within %s: %s", limit, what)
		}
		<-time.After(pause(now.Sub(begin), now.Sub(looked)))
	}
}

// pause is the time until the next look, after one that took that long. The looks of tests that wait
// beside each other shall not slow down what they wait for: they take a third of a processor at most,
// and become rarer the longer the wait is.
func pause(waited, look time.Duration) time.Duration {
	return min(max(10*time.Millisecond, waited/20, 2*look), 250*time.Millisecond)
}
