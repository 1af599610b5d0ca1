package get

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"

	"github.com/croft-edge/croft/internal/testing/statetest"
	"github.com/croft-edge/croft/pkg/stateview"
)

// silent is a state whose watches never begin.
type silent struct{ state.State }

func (silent) Watch(context.Context, resource.Pointer, chan<- state.Event, ...state.WatchOption) error {
	return nil
}

func (silent) WatchKind(context.Context, resource.Kind, chan<- state.Event, ...state.WatchKindOption) error {
	return nil
}

// punctual is a state that ends its watches a moment before their deadline, as a node does that has learnt it.
type punctual struct{ state.State }

func (p punctual) Watch(ctx context.Context, of resource.Pointer, events chan<- state.Event, opts ...state.WatchOption) error {
	endEarly(ctx, events)
	return p.State.Watch(ctx, of, events, opts...)
}

func (p punctual) WatchKind(ctx context.Context, of resource.Kind, events chan<- state.Event, opts ...state.WatchKindOption) error {
	endEarly(ctx, events)
	return p.State.WatchKind(ctx, of, events, opts...)
}

func endEarly(ctx context.Context, events chan<- state.Event) {
	deadline, some := ctx.Deadline()
	if !some {
		return
	}
	time.AfterFunc(time.Until(deadline)-time.Microsecond, func() {
		select {
		case events <- state.Event{Type: state.Errored, Error: io.EOF}:
		case <-ctx.Done():
		}
	})
}

// waited waits for a condition for a minute of the test's own time.
func waited(t *testing.T, st state.State, kind, id, condition string) (string, error) {
	t.Helper()
	types, err := stateview.ReadTypes(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	one, err := types.Find(kind)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := ParseWanted(condition)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	began := time.Now()
	err = Getter{State: st, Out: &out}.Run(t.Context(), one, Request{ID: id, WaitFor: wanted, Timeout: time.Minute})
	if took := time.Since(began); err != nil && took != time.Minute {
		t.Errorf("%s: it waits for %s, want a minute", condition, took)
	}
	return out.String(), err
}

// The error of a wait that takes too long says how far the resources are, and of a node that hasn't answered nothing of them.
func TestAWaitSaysWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, err := statetest.New(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for id, conditions := range map[string][]statetest.Condition{
			"1-1": {{Type: "Accepted", Status: "True"}, {Type: "Provisioned", Status: "True"}},
			"2-1": {{Type: "Provisioned", Status: "False", Reason: "NoSpace"}},
			"3-1": nil,
		} {
			if err := st.Create(t.Context(), statetest.NewWorkload(id, statetest.WorkloadSpec{Conditions: conditions})); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct{ kind, id, condition, want string }{
			{"workload", "2-1", "Provisioned", "cannot wait any longer for Provisioned=True: after 1m0s Workload 2-1 has Provisioned=False (NoSpace)"},
			{"workload", "2-1", "Accepted", "cannot wait any longer for Accepted=True: after 1m0s Workload 2-1 has no condition Accepted, but Provisioned"},
			{"workload", "3-1", "Accepted", "cannot wait any longer for Accepted=True: after 1m0s Workload 3-1 has no conditions"},
			{"workload", "9-9", "Accepted", "cannot wait any longer for Accepted=True: after 1m0s there is no Workload 9-9"},
			{"workloads", "", "Accepted", "cannot wait any longer for Accepted=True: after 1m0s Workload 2-1 has no condition Accepted, but Provisioned; Workload 3-1 has no conditions"},
			{"orders", "", "Accepted", "cannot wait any longer for Accepted=True: after 1m0s there is no Order"},
		} {
			for _, st := range []state.State{st, punctual{st}} {
				if _, err := waited(t, st, c.kind, c.id, c.condition); err == nil || err.Error() != c.want {
					t.Errorf("%T, %s %s: %v\nwant %s", st, c.kind, c.id, err, c.want)
				}
			}
			want := "the node hasn't answered for 1m0s"
			if _, err := waited(t, silent{st}, c.kind, c.id, c.condition); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s %s: %v\nwant %s", c.kind, c.id, err, want)
			}
		}
		if out, err := waited(t, st, "workload", "1-1", "Provisioned"); err != nil || !strings.Contains(out, "1-1") {
			t.Errorf("what has the condition: %s, %v", out, err)
		}
	})
}
