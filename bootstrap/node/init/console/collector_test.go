package console

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/namespaced"
	cosi "github.com/cosi-project/runtime/pkg/state/registry"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/parts"
	"github.com/croft-edge/croft/pkg/resources/registry"
	"github.com/croft-edge/croft/pkg/statesocket"
)

// fakeNode serves a state with a node's types on a node's socket. It is stopped by its end.
func fakeNode(t testing.TB, socket string, of ...resource.Resource) (stop func()) {
	t.Helper()
	if err := registry.Register(); err != nil {
		t.Fatal(err)
	}
	st := state.WrapCore(namespaced.NewState(inmem.Build))
	namespaces, types := cosi.NewNamespaceRegistry(st), cosi.NewResourceRegistry(st)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(namespaces.RegisterDefault(t.Context()))
	must(namespaces.Register(t.Context(), resources.Node, "of the test"))
	must(types.RegisterDefault(t.Context()))
	for _, each := range registry.Types() {
		must(types.Register(t.Context(), each.ResourceWithRD))
	}
	for _, r := range of {
		must(st.Create(t.Context(), r))
	}
	s, err := statesocket.Listen(t.Context(), statesocket.Config{Path: socket, State: st, Log: zerolog.Nop()})
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// whole are the resources of a node that has everything.
func whole() []resource.Resource {
	at := time.Now().Add(-time.Second).UTC()
	return []resource.Resource{
		host.NewNodeConfig(host.NodeConfigSpec{NodeID: "thenode", Version: "v1", Farm: 7}),
		host.NewStore(host.StoreSpec{Restored: true, Deployed: map[string]int64{"container": 3, "kubernetes": 1}}),
		host.NewExplorer(host.ExplorerSpec{URL: "https://explorer.example.org", LastContact: &at}),
		host.NewClock(host.ClockSpec{Trusted: true, Level: "remove", Source: "ntp"}),
		host.NewModule(host.ModuleSpec{Name: "storage", Storage: &host.Storage{BrokenDevices: []node.BrokenDevice{{Path: "/dev/sdx", Cause: "it is gone"}}}}),
		parts.NewPool(node.Pool{Name: "a", DiskType: "SSD", Total: 100, Used: 30}),
		parts.NewPool(node.Pool{Name: "b", DiskType: "HDD", Total: 10, Used: 30}),
		parts.NewBrokenPool(node.BrokenPool{Name: "c", Cause: "it is torn"}),
		host.NewReadiness(host.ReadinessSpec{Ready: true, Checks: []host.Check{host.Warn("orphans", "one")}}),
	}
}

// collecting runs a collector until the test's end.
func collecting(t testing.TB, socket string) *Collector {
	c := NewCollector(socket, zerolog.Nop())
	c.every, c.answerIn = 20*time.Millisecond, 300*time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

// becomes waits until the collector knows what is wanted.
func becomes(t testing.TB, c *Collector, what string, is func(Node) bool) Node {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if n := c.Node(); is(n) {
			return n
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("the node doesn't become %s: %+v", what, c.Node())
	return Node{}
}

func TestCollectorFollowsTheNode(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "state.sock")
	c := collecting(t, socket)
	becomes(t, c, "not running", func(n Node) bool { return n.Answer == Starting && n.Why == "its engine doesn't run" })
	stop := fakeNode(t, socket, whole()...)
	n := becomes(t, c, "answering", func(n Node) bool { return n.Answer == Answering })
	if n.ID != "thenode" || n.Farm != 7 || n.Version != "v1" || n.Explorer != "https://explorer.example.org" || !n.Ready || len(n.Checks) != 1 {
		t.Errorf("the node is %+v", n)
	}
	if n.Contact.Since.IsZero() || n.Clock != (Clock{Level: "remove", Source: "ntp"}) || n.Counters.Container != 3 || n.Counters.VM != 1 {
		t.Errorf("the node is %+v", n)
	}
	if want := []Pool{{"a", "SSD", 100, 70, ""}, {"b", "HDD", 10, 0, ""}, {"c", "", 0, 0, "it is torn"}, {"/dev/sdx", "", 0, 0, "it is gone"}}; len(n.Pools) != 4 || n.Pools[0] != want[0] || n.Pools[1] != want[1] || n.Pools[2] != want[2] || n.Pools[3] != want[3] {
		t.Errorf("the pools are %+v", n.Pools)
	}
	since := n.Since
	if again := becomes(t, c, "answering again", func(n Node) bool { return n.Answer == Answering }); !again.Since.Equal(since) {
		t.Errorf("it answers since %s, and since %s", since, again.Since)
	}
	stop()
	n = becomes(t, c, "silent", func(n Node) bool { return n.Answer == Silent && strings.Contains(n.Why, "doesn't run") })
	if n.ID != "thenode" || n.Farm != 7 || n.Explorer == "" || n.Pools != nil || n.Ready || n.Clock != (Clock{}) || !n.Contact.Since.IsZero() || !n.Since.After(since) {
		t.Errorf("the silent node is %+v", n)
	}
	fakeNode(t, socket)
	n = becomes(t, c, "answering after its restart", func(n Node) bool { return n.Answer == Answering })
	if n.Ready || n.ID != "" {
		t.Errorf("the node that knows nothing yet is %+v", n)
	}
}

// TestCollectorOfAStuckNode holds that a node that takes the connection and doesn't answer is told from one that doesn't run, soon.
func TestCollectorOfAStuckNode(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "state.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := collecting(t, socket)
	becomes(t, c, "known to be stuck", func(n Node) bool { return strings.HasPrefix(n.Why, "it took longer than 300ms") })
}

func TestContact(t *testing.T) {
	at := func(d time.Duration) *time.Time { x := now().Add(d); return &x }
	var c Contact
	for i, step := range []struct {
		spec  host.ExplorerSpec
		after time.Duration
		since time.Duration
		is    bool
	}{
		{host.ExplorerSpec{}, 0, 0, false},
		{host.ExplorerSpec{LastContact: at(0)}, time.Second, time.Second, true},
		{host.ExplorerSpec{LastContact: at(time.Minute)}, time.Minute, time.Second, true},
		{host.ExplorerSpec{LastContact: at(time.Minute), LastError: "x"}, 2 * time.Minute, 0, false},
		{host.ExplorerSpec{LastContact: at(3 * time.Minute)}, 3 * time.Minute, 3 * time.Minute, true},
		{host.ExplorerSpec{LastContact: at(3 * time.Minute)}, 9 * time.Minute, 0, false},
	} {
		c = c.next(step.spec, now().Add(step.after))
		if c.Since.IsZero() == step.is || step.is && !c.Since.Equal(now().Add(step.since)) {
			t.Errorf("step %d: %+v", i, c)
		}
	}
}

// BenchmarkLook is the cost of one look, of the console and the node together: cpu-us/look is of all threads.
func BenchmarkLook(b *testing.B) {
	socket := filepath.Join(b.TempDir(), "state.sock")
	fakeNode(b, socket, whole()...)
	var conn connection
	defer conn.close()
	if _, err := conn.ask(b.Context(), socket, time.Second); err != nil {
		b.Fatal(err)
	}
	before := cpu()
	for b.Loop() {
		if _, err := conn.ask(b.Context(), socket, time.Second); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-us/look")
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
