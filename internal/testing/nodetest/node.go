package nodetest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/orders"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/registry"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/statesocket"
	"github.com/croft-edge/croft/pkg/workload"
)

// Node is a node of a world. It can be started, killed and started again.
type Node struct {
	*Process
	// ID is the node's ID.
	ID string
	// Args are the flags of every start, after those that the world sets.
	Args []string
	// Namespace is the file of the network namespace of the node's processes; empty is the test's own.
	Namespace string

	*Containers
	*Volumes
	*Remains

	w    *World
	name string

	mu sync.Mutex
	// state is the connection to the node's state; nil while there is none.
	state *statesocket.Client
}

// Status is a node's status.
type Status = nodestatus.Status

// Ceiling is the limits of a part of a node.
type Ceiling = host.CeilingSpec

// Readiness is the answer of /readyz.
type Readiness = host.ReadinessSpec

// NewNode makes a node of that name and its key; it doesn't start it.
func (w *World) NewNode(name string, args ...string) *Node {
	w.Helper()
	n := &Node{w: w, name: name, Args: args, Namespace: w.Namespace}
	n.Volumes = &Volumes{tb: w, runDir: n.RunDir()}
	n.Containers = &Containers{
		tb: w, node: name, runDir: n.RunDir(), stateDir: n.StateDir(), until: w.Until,
		agentRuns: func() bool { return n.Process != nil && n.Running() }, status: n.TryStatus,
	}
	n.Remains = &Remains{tb: w, dir: n.Dir(), cgroup: n.Cgroup(), volumes: n.Volumes, containers: n.Containers}
	w.mu.Lock()
	w.nodes = append(w.nodes, n)
	w.mu.Unlock()
	w.Cleanup(func() { hangUp(n) })
	id, err := n.command(w.Setup, "id")
	if err != nil {
		w.Fatalf("croftd id: %v: %s", err, stderr(err))
	}
	n.ID = strings.TrimSpace(id)
	return n
}

// StartNode makes a node in one process, starts it, and waits until it is ready
// and known to the explorer.
func (w *World) StartNode(name string, args ...string) *Node {
	w.Helper()
	n := w.NewNode(name, args...)
	n.Start()
	n.WaitReady()
	if w.URL != "" {
		n.WaitRegistered()
	}
	return n
}

// Dir is the node's own folder.
func (n *Node) Dir() string { return n.w.Path(n.name) }

// StateDir holds the state that survives a reboot.
func (n *Node) StateDir() string { return n.w.Path(n.name, "s") }

// RunDir holds the state that doesn't.
func (n *Node) RunDir() string { return n.w.Path(n.name, "r") }

// BusURL is the bus of a node in one process.
func (n *Node) BusURL() string { return "unix://" + n.w.Path(n.name, "r", "bus.sock") }

func (n *Node) healthFile() string { return n.w.Path(n.name, "health") }

func (n *Node) doorFile() string { return n.w.Path(n.name, "door") }

// Door is the address of the node's door for users.
func (n *Node) Door() string {
	n.w.Helper()
	raw, err := os.ReadFile(n.doorFile())
	if err != nil {
		n.w.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

// Flags are the flags of every command for this node.
func (n *Node) Flags() []string {
	flags := []string{
		"--state-dir", n.StateDir(), "--run-dir", n.RunDir(), "--pool-size", "8GiB", "--log-level", "debug",
		"--health-listen", "127.0.0.1:0", "--health-file", n.healthFile(), "--heartbeat", "1s", "--poll-wait", "5s", "--stop-timeout", "2s",
		"--door-listen", "127.0.0.1:0", "--door-file", n.doorFile(),
		"--containerd", "own", "--container-cgroup", n.Cgroup(), "--image-paths", n.w.Images.Folder,
	}
	if n.w.URL != "" {
		flags = append(flags, "--explorer", n.w.URL)
	}
	return append(flags, n.Args...)
}

// Start starts the node in one process, and makes its folder.
func (n *Node) Start(more ...string) {
	n.w.Helper()
	_ = os.Remove(n.healthFile())
	if err := os.MkdirAll(n.Dir(), 0o755); err != nil {
		n.w.Fatal(err)
	}
	n.Process = n.start(n.name, append(append([]string{"run"}, n.Flags()...), more...)...)
}

// start starts croftd in the node's network namespace.
func (n *Node) start(name string, args ...string) *Process {
	n.w.Helper()
	program, args := n.inside(args)
	return n.w.Start(name, program, args...)
}

// inside is the command line of croftd in the node's network namespace. It enters no other namespace:
// the node's mounts are visible to all.
func (n *Node) inside(args []string) (program string, line []string) {
	return n.within(n.w.Croftd, args)
}

func (n *Node) within(croftd string, args []string) (program string, line []string) {
	if n.Namespace == "" {
		return croftd, args
	}
	return "nsenter", append([]string{"--net=" + n.Namespace, croftd}, args...)
}

// Croftd runs croftd with this node's flags to its end and returns its output.
func (n *Node) Croftd(args ...string) string {
	n.w.Helper()
	out, err := n.TryCroftd(args...)
	if err != nil {
		n.w.Fatalf("croftd %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// TryCroftd is Croftd that may fail; the error holds the standard error output.
func (n *Node) TryCroftd(args ...string) (string, error) {
	return n.command(n.w.Croftd, args...)
}

func (n *Node) command(croftd string, args ...string) (string, error) {
	// Flags come after the command and its subcommands, before arguments.
	i := 1
	below := []string{"store", "storage", "network", "container", "vm", "config"}
	if len(args) > 1 && slices.Contains(below, args[0]) && !strings.HasPrefix(args[1], "-") {
		i = 2
	}
	full := append(append(append([]string{}, args[:i]...), n.Flags()...), args[i:]...)
	program, full := n.within(croftd, full)
	cmd := exec.CommandContext(context.WithoutCancel(n.w.Context()), program, full...)
	cmd.Env = environ()
	out, err := cmd.Output()
	return string(out), err
}

// Address is the address of the node's health port; empty when there is none.
func (n *Node) Address() string {
	raw, err := os.ReadFile(n.healthFile())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// Ready is the answer of /readyz; false when there is none, or the node isn't ready.
func (n *Node) Ready() (Readiness, bool) {
	var r Readiness
	address := n.Address()
	if address == "" {
		return r, false
	}
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: n.w.DialFrom(n.Namespace), DisableKeepAlives: true}}
	resp, err := client.Get("http://" + address + "/readyz")
	if err != nil {
		return r, false
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(raw, &r) != nil {
		return r, false
	}
	return r, r.Ready && resp.StatusCode == http.StatusOK
}

// WaitReady waits until the node takes new reservations.
func (n *Node) WaitReady() {
	n.w.Helper()
	n.w.Until(Soon, n.name+" is ready", func() bool {
		if n.Process != nil {
			n.MustRun()
		}
		_, ready := n.Ready()
		return ready
	})
}

// WaitRegistered waits until the explorer knows the node.
func (n *Node) WaitRegistered() {
	n.w.Helper()
	n.w.Until(Soon, "the explorer knows "+n.name, func() bool {
		_, err := n.w.Client.Node(n.w.Context(), n.ID)
		return err == nil
	})
}

// Status is the node's status.
func (n *Node) Status() Status {
	n.w.Helper()
	s, err := n.TryStatus()
	if err != nil {
		n.w.Fatal(err)
	}
	return s
}

// TryStatus is Status of a node that may not run. It reads the state's socket as croftd status does: a
// process for each look would take most of the processor while a test waits.
func (n *Node) TryStatus() (Status, error) {
	ctx, cancel := context.WithTimeout(n.w.Context(), 20*time.Second)
	defer cancel()
	client, err := n.client(ctx)
	if err != nil {
		return Status{}, err
	}
	if _, err := orders.Give(ctx, client, work.OrderSpec{Kind: work.Look}); err != nil {
		hangUp(n) // the node may be another one by now
		return Status{}, err
	}
	return nodestatus.Read(ctx, client)
}

// Happened counts how often something of that reason has happened to an object, such as network/1-1, by the node's events; none while it
// can't be asked. A test that waits for a passing state may look too seldom to see it.
func Happened(n *Node, reason, object string) (count int) {
	ctx, cancel := context.WithTimeout(n.w.Context(), 20*time.Second)
	defer cancel()
	client, err := n.client(ctx)
	if err != nil {
		return 0
	}
	events, err := safe.StateListAll[*work.Event](ctx, client)
	if err != nil {
		hangUp(n) // the node may be another one by now
		return 0
	}
	for e := range events.All() {
		if is := e.TypedSpec(); is.Reason == reason && is.Object == object {
			count += is.Count
		}
	}
	return count
}

// client is the connection to the node's state, which looks share.
func (n *Node) client(ctx context.Context) (*statesocket.Client, error) {
	if err := registry.Register(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != nil {
		return n.state, nil
	}
	client, err := statesocket.Dial(ctx, filepath.Join(n.RunDir(), "state.sock"))
	if err != nil {
		return nil, err
	}
	n.state = client
	return client, nil
}

// hangUp closes the connection to the node's state.
func hangUp(n *Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != nil {
		_ = n.state.Close()
		n.state = nil
	}
}

// Reboot simulates a reboot of a stopped node: mounts, loop devices and the run folder are gone.
func (n *Node) Reboot() {
	n.w.Helper()
	vmDown(n)
	n.containerDown()
	n.networkDown()
	if err := TakeDown(n.Dir()); err != nil {
		n.w.Fatal(err)
	}
	if err := os.RemoveAll(n.RunDir()); err != nil {
		n.w.Fatal(err)
	}
}

// networkDown removes the stopped node's networks and its carrier.
func (n *Node) networkDown() {
	if _, err := os.Stat(filepath.Join(n.RunDir(), "network")); err != nil {
		return
	}
	if _, err := n.command(n.w.Setup, "network", "down"); err != nil {
		n.w.Errorf("the networks of %s stay: %v: %s", n.name, err, stderr(err))
	}
}

// containerDown ends the stopped node's containers, its containerd and its log carrier, and reports
// their remains as errors.
func (n *Node) containerDown() {
	if _, err := os.Stat(filepath.Join(n.RunDir(), "containerd")); err != nil {
		return
	}
	if _, err := n.command(n.w.Setup, "container", "down"); err != nil {
		n.w.Errorf("the containers of %s stay: %v: %s", n.name, err, stderr(err))
	}
	if left := slices.Concat(n.groupsLeft(), n.processesLeft(), n.standing()); len(left) > 0 {
		n.w.Errorf("of the containers of %s is left: %s", n.name, strings.Join(left, ", "))
	}
}

// stderr is the standard error output of a failed command.
func stderr(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}

// Counters are the node's counters, read over its bus by this process: the
// first value of the stream.
func (w *World) Counters(n *Node) workload.ProvisionCounters {
	w.Helper()
	return w.CountersAt(n.BusURL())
}

// CountersAt are the counters of the node whose bus is at url.
func (w *World) CountersAt(url string) workload.ProvisionCounters {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	client, err := bus.Dial(ctx, url, bus.Options{})
	if err != nil {
		w.Fatal(err)
	}
	defer client.Close()
	counters, err := stubs.NewProvisionStub(client).Counters(ctx)
	if err != nil {
		w.Fatal(err)
	}
	value, ok := <-counters
	if !ok {
		w.Fatalf("the counters' stream of %s has ended without a value", url)
	}
	return value
}
