package orders_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/orders"
	"github.com/croft-edge/croft/pkg/resources/registry"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/statesocket"
	"github.com/croft-edge/croft/provision/plane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// operator carries orders out: those about 9-9 fail, those about 8-8 last until they are withdrawn.
type operator struct {
	mu   sync.Mutex
	done []string
}

func (o *operator) CarryOut(ctx context.Context, order work.OrderSpec) (string, error) {
	switch order.Target {
	case "9-9":
		return "", node.Errorf(node.NotExist, "cannot evict 9-9: there is none")
	case "8-8":
		<-ctx.Done()
		return "", ctx.Err()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done = append(o.done, order.Kind+" "+order.Target)
	return "", nil
}

func (o *operator) all() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.done, ", ")
}

// serve runs a node's state with an engine, and returns its socket.
func serve(t *testing.T, o *operator) (*plane.Engine, string) {
	t.Helper()
	p, err := plane.Open(plane.Config{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	engine := plane.NewEngine(plane.EngineConfig{Orders: o, ClockChanged: func() {}, Log: zerolog.Nop()})
	p.Add(engine)
	p.AddQueued(plane.OrderCleaner())
	socket := filepath.Join(t.TempDir(), "state.sock")
	s, err := statesocket.Listen(t.Context(), statesocket.Config{Path: socket, State: p.State(), Check: plane.CheckOrder, Log: zerolog.Nop()})
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
	return engine, socket
}

func TestGive(t *testing.T) {
	if err := registry.Register(); err != nil {
		t.Fatal(err)
	}
	o := &operator{}
	_, socket := serve(t, o)
	client, err := statesocket.Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	evict := func(ctx context.Context, id string) error {
		_, err := orders.Give(ctx, client, work.OrderSpec{Kind: work.Evict, Target: id})
		return err
	}
	if err := evict(t.Context(), "007-1"); err != nil || o.all() != "evict 7-1" {
		t.Errorf("done %q, %v", o.all(), err)
	}
	if err := evict(t.Context(), "9-9"); node.KindOf(err) != node.NotExist || err.Error() != "cannot evict 9-9: there is none" {
		t.Errorf("got %v", err)
	}
	if err := evict(t.Context(), "../x"); node.KindOf(err) != node.Invalid || !strings.Contains(err.Error(), "must be N-M") {
		t.Errorf("got %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := evict(short, "8-8"); node.KindOf(err) != node.Unknown {
		t.Errorf("an order that lasts gives %v", err)
	}
}

const page = "../../docs/how-to/outside-controller.md"

// TestOutsideController: the page's program is the one here, has at most 60 lines, and does what the page says.
func TestOutsideController(t *testing.T) {
	code, err := os.ReadFile("testdata/outside/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(code, []byte("\n")); lines > 60 {
		t.Errorf("the program has %d lines", lines)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const from, to = "<!-- main.go: a test compiles and runs this -->\n```go\n", "```\n<!-- /main.go -->"
	before, rest, found := strings.Cut(string(text), from)
	shown, after, closed := strings.Cut(rest, to)
	if !found || !closed {
		t.Fatalf("%s has no place for the program", page)
	}
	if shown != string(code) {
		if os.Getenv("WRITE_DOCS") == "" {
			t.Errorf("%s is stale: run this test with WRITE_DOCS=1", page)
		} else if err := os.WriteFile(page, []byte(before+from+string(code)+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(t.TempDir(), "outside")
	if out, err := exec.Command("go", "build", "-o", program, "./testdata/outside").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := &operator{}
	engine, socket := serve(t, o)
	engine.Workloads([]work.WorkloadSpec{{ID: "1-1", Phase: "deployed", Attempts: 40}, {ID: "2-1", Phase: "retry", Attempts: 9}}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run := exec.CommandContext(ctx, program, socket)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = run.Wait() }()
	defer cancel()
	engine.Workloads([]work.WorkloadSpec{{ID: "2-1", Phase: "retry", Attempts: 10}}, nil)
	for deadline := time.Now().Add(time.Minute); o.all() != "evict 2-1"; {
		if time.Now().After(deadline) {
			t.Fatalf("done %q", o.all())
		}
		time.Sleep(10 * time.Millisecond)
	}
}
