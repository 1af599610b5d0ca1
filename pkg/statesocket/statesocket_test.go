package statesocket_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/conformance"
	"github.com/stretchr/testify/suite"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/croft-edge/croft/internal/testing/statetest"
	"github.com/croft-edge/croft/pkg/privatesocket"
	"github.com/croft-edge/croft/pkg/statesocket"
)

// TestConformance runs the library's own suite through the socket, on a guard that lets everything through.
func TestConformance(t *testing.T) {
	w := serve(t, func(c *statesocket.Config) {
		c.Guard = func(core state.CoreState, _ statesocket.Limits) state.CoreState { return core }
	})
	suite.Run(t, &conformance.StateSuite{State: statetest.Answered(w.dial(t)), Namespaces: []resource.Namespace{"default", "controller", "system", "runtime"}})
}

// TestABareClientReadsAndWatches: it knows no type of the node, and is another process.
func TestABareClientReadsAndWatches(t *testing.T) {
	w := serve(t, nil)
	one := statetest.NewWorkload("1-1", statetest.WorkloadSpec{Kind: "volume"})
	must(t, w.state.Create(t.Context(), one))
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), bareEnv+"="+w.socket)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for i, want := range []string{"get 1-1 *protobuf.Resource", "Created 1-1 1", "Bootstrapped  undefined", "Updated 1-1 2"} {
		if i == 3 {
			_, err := safe.StateUpdateWithConflicts(t.Context(), w.state, one.Metadata(), func(r *statetest.Workload) error {
				r.TypedSpec().Phase = "deployed"
				return nil
			})
			must(t, err)
		}
		if !lines.Scan() || lines.Text() != want {
			t.Errorf("line %d is %q, want %q", i, lines.Text(), want)
		}
	}
	must(t, cmd.Wait())
}

func TestNobodyServes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "no.sock")
	_, err := statesocket.Dial(t.Context(), path)
	if !errors.Is(err, privatesocket.ErrNotRunning) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

// TestOnlyOrdersAreWritten: every other write is refused with a reason, and changes nothing.
func TestOnlyOrdersAreWritten(t *testing.T) {
	w := serve(t, nil)
	must(t, w.state.Create(t.Context(), statetest.NewWorkload("1-1", statetest.WorkloadSpec{Kind: "volume"})))
	c := w.dial(t)
	got, err := safe.StateGet[*statetest.Workload](t.Context(), c, workload("1-1"))
	must(t, err)
	got.TypedSpec().Phase = "mine"
	elsewhere := statetest.NewOrder("o", statetest.OrderSpec{})
	*elsewhere.Metadata() = resource.NewMetadata(statetest.Node, statetest.OrderType, "o", resource.VersionUndefined)
	inOrders := statetest.NewWorkload("w", statetest.WorkloadSpec{})
	*inOrders.Metadata() = resource.NewMetadata(statetest.Orders, statetest.WorkloadType, "w", resource.VersionUndefined)
	_, tear := c.Teardown(t.Context(), workload("1-1"))
	for name, err := range map[string]error{
		"create":                      c.Create(t.Context(), statetest.NewWorkload("2-1", statetest.WorkloadSpec{})),
		"update":                      c.Update(t.Context(), got),
		"destroy":                     c.Destroy(t.Context(), workload("1-1")),
		"teardown":                    tear,
		"finalizer":                   c.AddFinalizer(t.Context(), workload("1-1"), "mine"),
		"order in another namespace":  c.Create(t.Context(), elsewhere),
		"other type in orders":        c.Create(t.Context(), inOrders),
		"definition":                  c.Destroy(t.Context(), resource.NewMetadata(meta.NamespaceName, meta.NamespaceType, "node", resource.VersionUndefined)),
		"with the owner of the thing": c.Destroy(t.Context(), workload("1-1"), state.WithDestroyOwner("Engine")),
	} {
		if err == nil || !strings.Contains(err.Error(), "PermissionDenied") || !strings.HasPrefix(statesocket.Plain(err), "cannot change ") || !strings.Contains(err.Error(), "they write Orders.croft in namespace orders") {
			t.Errorf("%s: %v", name, err)
		}
	}
	now, err := safe.StateGet[*statetest.Workload](t.Context(), w.state, workload("1-1"))
	must(t, err)
	if now.Metadata().Version().String() != "1" || now.Metadata().Phase() != resource.PhaseRunning {
		t.Errorf("the workload is now %s", now.Metadata())
	}
}

// TestAnOrdersLife: a client gives an order, sees the node's status in it, withdraws and removes it.
func TestAnOrdersLife(t *testing.T) {
	w := serve(t, nil)
	c := w.dial(t)
	o := statetest.NewOrder("evict-1", statetest.OrderSpec{Action: "evict", Target: "1-1"})
	must(t, c.Create(t.Context(), o))
	if err := c.Create(t.Context(), statetest.NewOrder("evict-1", statetest.OrderSpec{})); !state.IsConflictError(err) {
		t.Errorf("the same again: %v", err)
	}
	// The node's own copy has lists that aren't nil, which protobuf doesn't carry.
	_, err := safe.StateUpdateWithConflicts(t.Context(), w.state, order("evict-1"), func(r *statetest.Order) error {
		r.TypedSpec().Status, r.TypedSpec().Notes = "waiting", map[string]string{}
		return nil
	})
	must(t, err)
	must(t, w.state.AddFinalizer(t.Context(), order("evict-1"), "Engine"))
	seen, err := safe.StateGet[*statetest.Order](t.Context(), c, order("evict-1"))
	must(t, err)
	if seen.TypedSpec().Status != "waiting" {
		t.Errorf("got %+v", seen.TypedSpec())
	}
	for name, change := range map[string]func(*statetest.Order){
		"status": func(r *statetest.Order) { r.TypedSpec().Status = "done" },
		"status with teardown": func(r *statetest.Order) {
			r.TypedSpec().Status = "done"
			r.Metadata().SetPhase(resource.PhaseTearingDown)
		},
		"label with teardown": func(r *statetest.Order) {
			r.Metadata().Labels().Set("a", "b")
			r.Metadata().SetPhase(resource.PhaseTearingDown)
		},
		"finalizer of the node gone": func(r *statetest.Order) {
			r.Metadata().Finalizers().Remove("Engine")
			r.Metadata().SetPhase(resource.PhaseTearingDown)
		},
	} {
		mine := seen.DeepCopy().(*statetest.Order)
		change(mine)
		if err := c.Update(t.Context(), mine, state.WithExpectedPhaseAny()); err == nil || !strings.Contains(err.Error(), "clients may only tear it down") {
			t.Errorf("%s: %v", name, err)
		}
	}
	ready, err := c.Teardown(t.Context(), order("evict-1"))
	must(t, err)
	if ready {
		t.Error("it may be destroyed while the node works on it")
	}
	if err := c.Destroy(t.Context(), order("evict-1")); !state.IsConflictError(err) {
		t.Errorf("destroyed while the node works on it: %v", err)
	}
	must(t, w.state.RemoveFinalizer(t.Context(), order("evict-1"), "Engine"))
	must(t, c.Destroy(t.Context(), order("evict-1")))
	if _, err := w.state.Get(t.Context(), order("evict-1")); !state.IsNotFoundError(err) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestOrdersAreBounded(t *testing.T) {
	w := serve(t, func(c *statesocket.Config) { c.Limits.Orders, c.Limits.OrderSize = 3, 1000 })
	c := w.dial(t)
	owned := statetest.NewOrder("owned", statetest.OrderSpec{})
	must(t, owned.Metadata().SetOwner("Engine"))
	fin := statetest.NewOrder("fin", statetest.OrderSpec{})
	fin.Metadata().Finalizers().Add("mine")
	down := statetest.NewOrder("down", statetest.OrderSpec{})
	down.Metadata().SetPhase(resource.PhaseTearingDown)
	labelled := statetest.NewOrder("labelled", statetest.OrderSpec{})
	labelled.Metadata().Labels().Set("a", strings.Repeat("x", 1000))
	for want, err := range map[string]error{
		"its owner must be empty":         c.Create(t.Context(), owned),
		"only the node sets one":          c.Create(t.Context(), statetest.NewOrder("owner", statetest.OrderSpec{}), state.WithCreateOwner("Engine")),
		"its finalizers must be empty":    c.Create(t.Context(), fin),
		"its phase must be running":       c.Create(t.Context(), down),
		"at most 1000 are allowed":        c.Create(t.Context(), statetest.NewOrder("big", statetest.OrderSpec{Target: strings.Repeat("x", 1000)})),
		"order labelled: it has ":         c.Create(t.Context(), labelled),
		"its id must be 1 to 128":         c.Create(t.Context(), statetest.NewOrder("a\x1b[31m", statetest.OrderSpec{})),
		"digits, or one of . _ : -":       c.Create(t.Context(), statetest.NewOrder("", statetest.OrderSpec{})),
		"letters, digits, or one of . _ ": c.Create(t.Context(), statetest.NewOrder(strings.Repeat("x", 129), statetest.OrderSpec{})),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for _, id := range []string{"1", "2", "3"} {
		must(t, c.Create(t.Context(), statetest.NewOrder(id, statetest.OrderSpec{})))
	}
	if err := c.Create(t.Context(), statetest.NewOrder("4", statetest.OrderSpec{})); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "at most 3 are allowed at a time") {
		t.Errorf("a fourth: %v", err)
	}
	must(t, c.Destroy(t.Context(), order("2")))
	must(t, c.Create(t.Context(), statetest.NewOrder("4", statetest.OrderSpec{})))
	if err := c.Destroy(t.Context(), order("1"), state.WithDestroyOwner("Engine")); err == nil || !strings.Contains(err.Error(), "owner must be empty") {
		t.Errorf("destroy as another: %v", err)
	}
}

// TestUnknownNamesMakeNothing: the library would keep a collection for each name that anybody reads.
func TestUnknownNamesMakeNothing(t *testing.T) {
	w := serve(t, nil)
	c := w.dial(t)
	for _, kind := range []resource.Metadata{
		resource.NewMetadata("elsewhere", statetest.WorkloadType, "x", resource.VersionUndefined),
		resource.NewMetadata(statetest.Node, "Junk.croft", "x", resource.VersionUndefined),
		resource.NewMetadata(statetest.Node, strings.ToUpper(statetest.WorkloadType), "x", resource.VersionUndefined), // would be one collection a spelling
	} {
		_, get := c.Get(t.Context(), kind)
		_, list := c.List(t.Context(), kind)
		watch := c.WatchKind(t.Context(), kind, make(chan state.Event))
		for verb, err := range map[string]error{"get": get, "list": list, "watch": watch} {
			if err == nil || !strings.Contains(err.Error(), "this node has none of that name") {
				t.Errorf("%s %s: %v", verb, kind, err)
			}
		}
	}
	if _, err := c.Get(t.Context(), workload("none")); !state.IsNotFoundError(err) || strings.Contains(err.Error(), "of that name") {
		t.Errorf("a known type without that resource: %v", err)
	}
}

// TestAPlainErrorIsOneSentence: what the command line shows has no words of gRPC in it.
func TestAPlainErrorIsOneSentence(t *testing.T) {
	w := serve(t, nil)
	_, err := w.dial(t).Get(t.Context(), resource.NewMetadata(statetest.Node, "Junk.croft", "x", resource.VersionUndefined))
	if err == nil || statesocket.Plain(err) != `cannot read type "Junk.croft": this node has none of that name` {
		t.Errorf("got %v", err)
	}
	if got := statesocket.Plain(errors.New("cannot x")); got != "cannot x" {
		t.Errorf("got %q", got)
	}
}

// TestTheEndOfTheNodeEndsItsWatches: nobody waits for a node that is gone.
func TestTheEndOfTheNodeEndsItsWatches(t *testing.T) {
	st, err := statetest.New(t.Context())
	must(t, err)
	path := filepath.Join(t.TempDir(), "s.sock")
	s, err := statesocket.Listen(t.Context(), statesocket.Config{Path: path, State: st})
	must(t, err)
	ctx, cancel := contextWithCancel(t)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	w := world{state: st, socket: path}
	events := make(chan state.Event)
	must(t, w.dial(t).WatchKind(t.Context(), workloads(), events, state.WithBootstrapContents(true)))
	if e := next(t, events); e.Type != state.Bootstrapped {
		t.Fatalf("got %v", e)
	}
	cancel()
	if e := next(t, events); e.Type != state.Errored || !strings.HasPrefix(statesocket.Plain(e.Error), "the node has ") {
		t.Errorf("got %v", e)
	}
	select {
	case err := <-done:
		must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("it doesn't end")
	}
}
