package statesocket_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/pkg/errors"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/croft-edge/croft/internal/testing/statetest"
	"github.com/croft-edge/croft/pkg/statesocket"
	"github.com/croft-edge/croft/pkg/stateview"
)

// shown is a workload and an order with everything that a resource may have. An order has a map, which only YAML shows.
func shown(t *testing.T, w world) []resource.Resource {
	t.Helper()
	one := statetest.NewWorkload("1-1", statetest.WorkloadSpec{
		Kind: "volume", Attempts: 2, Message: "a <b> & \"c\": d\nand more",
		Conditions: []statetest.Condition{{Type: "Provisioned", Status: "True", Since: time.Date(2026, 11, 24, 10, 0, 0, 5, time.UTC)}},
	})
	must(t, one.Metadata().SetOwner("Engine"))
	other := statetest.NewOrder("evict-1", statetest.OrderSpec{Action: "evict", Notes: map[string]string{"a": "b"}})
	for _, r := range []resource.Resource{one, other} {
		r.Metadata().Labels().Set("user", "u")
		r.Metadata().Annotations().Set("note", "n")
		r.Metadata().Finalizers().Add("container/5-1")
		r.Metadata().SetPhase(resource.PhaseTearingDown)
		must(t, w.state.Create(t.Context(), r, state.WithCreateOwner(r.Metadata().Owner())))
	}
	return []resource.Resource{one, other}
}

// read reads a resource twice, alone and in a list, as those do who show it.
func read(ctx context.Context, t *testing.T, c state.State, of resource.Resource) []resource.Resource {
	t.Helper()
	raw := state.WithSkipProtobufUnmarshal()
	one, err := c.Get(ctx, of.Metadata(), state.WithGetUnmarshalOptions(raw))
	must(t, err)
	all, err := c.List(ctx, of.Metadata(), state.WithLabelQuery(resource.LabelEqual("user", "u")), state.WithListUnmarshalOptions(raw))
	must(t, err)
	if len(all.Items) != 1 {
		t.Fatalf("the list has %d resources", len(all.Items))
	}
	return []resource.Resource{one, all.Items[0]}
}

// specOf is a received resource's spec.
func specOf(t *testing.T, r resource.Resource) *v1alpha1.Spec {
	t.Helper()
	m, err := r.(*protobuf.Resource).Marshal()
	must(t, err)
	return m.GetSpec()
}

// TestOnlyWhoAsksGetsJSON: it shows the same, and every other client gets YAML and protobuf.
func TestOnlyWhoAsksGetsJSON(t *testing.T) {
	w := serve(t, nil)
	c := w.dial(t)
	for _, r := range shown(t, w) {
		fromYAML, fromJSON := read(t.Context(), t, c, r), read(statesocket.WithJSON(t.Context()), t, c, r)
		for i := range fromYAML {
			if s := specOf(t, fromYAML[i]); json.Valid([]byte(s.GetYamlSpec())) || !strings.Contains(s.GetYamlSpec(), ": ") || len(s.GetProtoSpec()) == 0 {
				t.Errorf("without a header: %q, %d bytes of protobuf", s.GetYamlSpec(), len(s.GetProtoSpec()))
			}
			_, isWorkload := r.(*statetest.Workload)
			if s := specOf(t, fromJSON[i]); json.Valid([]byte(s.GetYamlSpec())) != isWorkload || isWorkload != (len(s.GetProtoSpec()) == 0) {
				t.Errorf("with the header: %q, %d bytes of protobuf", s.GetYamlSpec(), len(s.GetProtoSpec()))
			}
			want, err := stateview.NewDocument(fromYAML[i])
			must(t, err)
			got, err := stateview.NewDocument(fromJSON[i])
			must(t, err)
			if !reflect.DeepEqual(got, want) || got.Metadata.Owner != r.Metadata().Owner() || got.Metadata.Phase != "tearingDown" || len(got.Metadata.Finalizers) != 1 || got.Metadata.Created.IsZero() {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		}
	}
}

// TestAListOfJSONIsSelected: labels and IDs select as they do without JSON.
func TestAListOfJSONIsSelected(t *testing.T) {
	w := serve(t, nil)
	c := w.dial(t)
	for _, id := range []string{"1-1", "1-2", "2-1"} {
		one := statetest.NewWorkload(id, statetest.WorkloadSpec{})
		one.Metadata().Labels().Set("user", id[:1])
		one.Metadata().Labels().Set("type", id[2:])
		must(t, w.state.Create(t.Context(), one))
	}
	for want, opts := range map[string][]state.ListOption{
		"1-1 1-2 2-1": nil,
		"1-1 1-2":     {state.WithLabelQuery(resource.LabelEqual("user", "1"))},
		"1-2":         {state.WithLabelQuery(resource.LabelEqual("user", "1"), resource.LabelEqual("type", "2"))},
		"1-2 2-1":     {state.WithLabelQuery(resource.LabelEqual("user", "2")), state.WithLabelQuery(resource.LabelEqual("type", "2"))},
		"1-1 2-1":     {state.WithIDQuery(resource.IDRegexpMatch(regexp.MustCompile("-1$")))},
	} {
		for _, ctx := range []context.Context{t.Context(), statesocket.WithJSON(t.Context())} {
			list, err := c.List(ctx, workloads(), append(opts, state.WithListUnmarshalOptions(state.WithSkipProtobufUnmarshal()))...)
			must(t, err)
			var got []string
			for _, r := range list.Items {
				got = append(got, r.Metadata().ID())
			}
			slices.Sort(got)
			if strings.Join(got, " ") != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
	wrong := &v1alpha1.ListOptions{LabelQuery: []*v1alpha1.LabelQuery{{Terms: []*v1alpha1.LabelTerm{{Op: 99}}}}}
	stream, err := w.raw(t).List(statesocket.WithJSON(t.Context()), &v1alpha1.ListRequest{Namespace: statetest.Node, Type: statetest.WorkloadType, Options: wrong})
	must(t, err)
	if _, err := stream.Recv(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a query that can't be read: %v", err)
	}
}

// TestJSONPassesNoGuard: whoever asks for it reads nothing more.
func TestJSONPassesNoGuard(t *testing.T) {
	w := serve(t, nil)
	ctx := statesocket.WithJSON(t.Context())
	c := w.dial(t)
	if _, err := c.Get(ctx, workload("none")); !state.IsNotFoundError(err) {
		t.Errorf("nothing there: %v", err)
	}
	junk := resource.NewMetadata(statetest.Node, "Junk.croft", "x", resource.VersionUndefined)
	_, get := c.Get(ctx, junk)
	_, list := c.List(ctx, junk)
	for _, err := range []error{get, list} {
		if err == nil || !strings.Contains(err.Error(), "this node has none of that name") {
			t.Errorf("an unknown type: %v", err)
		}
	}
}

// TestJSONIsBounded: an answer has the same limit.
func TestJSONIsBounded(t *testing.T) {
	w := serve(t, func(c *statesocket.Config) { c.Limits.Answer = 1000 })
	must(t, w.state.Create(t.Context(), statetest.NewWorkload("1-1", statetest.WorkloadSpec{Message: strings.Repeat("x", 1000)})))
	_, err := w.raw(t).Get(statesocket.WithJSON(t.Context()), &v1alpha1.GetRequest{Namespace: statetest.Node, Type: statetest.WorkloadType, Id: "1-1"})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
}

// TestAWatchGivesTheAskedForm: the same events in each form, with what was before a change and what is gone.
func TestAWatchGivesTheAskedForm(t *testing.T) {
	w := serve(t, nil)
	c := w.dial(t)
	id := 0
	for _, form := range []string{"", "json", "protobuf"} {
		for _, aggregated := range []bool{false, true} {
			id++
			one := statetest.NewWorkload(fmt.Sprintf("%d-1", id), statetest.WorkloadSpec{Kind: "volume"})
			must(t, w.state.Create(t.Context(), one))
			ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "croft-spec", form))
			events := make(chan state.Event, 10)
			opts := []state.WatchKindOption{
				state.WithBootstrapContents(true), state.WithWatchKindUnmarshalOptions(state.WithSkipProtobufUnmarshal()),
			}
			if aggregated {
				all := make(chan []state.Event, 10)
				must(t, c.WatchKindAggregated(ctx, workloads(), all, opts...))
				go func() {
					for {
						select {
						case some := <-all:
							for _, e := range some {
								events <- e
							}
						case <-ctx.Done():
							return
						}
					}
				}()
			} else {
				must(t, c.WatchKind(ctx, workloads(), events, opts...))
			}
			wantForm(t, form, next(t, events), state.Created)
			if e := next(t, events); e.Type != state.Bootstrapped {
				t.Fatalf("%s: got %s", form, e.Type)
			}
			must(t, w.state.Modify(t.Context(), one, func(r resource.Resource) error {
				r.(*statetest.Workload).TypedSpec().Kind = "zdb"
				return nil
			}))
			wantForm(t, form, next(t, events), state.Updated)
			must(t, w.state.Destroy(t.Context(), one.Metadata()))
			wantForm(t, form, next(t, events), state.Destroyed)
			cancel()
		}
	}
}

// wantForm checks what a watch has given of a workload: a changed one is a zdb, and was a volume.
func wantForm(t *testing.T, form string, e state.Event, kind state.EventType) {
	t.Helper()
	all := map[resource.Resource]string{e.Resource: "volume"}
	if kind != state.Created {
		all = map[resource.Resource]string{e.Resource: "zdb"}
	}
	if kind == state.Updated {
		all[e.Old] = "volume"
	}
	if e.Type != kind {
		t.Fatalf("%q: got %s (%v), want %s", form, e.Type, e.Error, kind)
	}
	for r, is := range all {
		s := specOf(t, r)
		yaml, known := s.GetYamlSpec(), strings.Contains(s.GetYamlSpec()+string(s.GetProtoSpec()), is)
		if !known || (form == "protobuf") != (yaml == "") || (form == "json") != json.Valid([]byte(yaml)) || (form == "json") != (len(s.GetProtoSpec()) == 0) {
			t.Errorf("%q, %s: %q and %q", form, e.Type, yaml, s.GetProtoSpec())
		}
	}
}

// TestWhatHasATypeIsSentAsProtobufAlone: a client makes resources of it, and reads no YAML.
func TestWhatHasATypeIsSentAsProtobufAlone(t *testing.T) {
	w := serve(t, nil)
	for _, r := range shown(t, w) {
		for _, form := range []string{"", "protobuf"} {
			got, err := w.raw(t).Get(metadata.AppendToOutgoingContext(t.Context(), "croft-spec", form), &v1alpha1.GetRequest{
				Namespace: r.Metadata().Namespace(), Type: r.Metadata().Type(), Id: r.Metadata().ID(),
			})
			must(t, err)
			if s := got.GetResource().GetSpec(); (s.GetYamlSpec() == "") != (form == "protobuf") || len(s.GetProtoSpec()) == 0 {
				t.Errorf("%q: %q, %d bytes of protobuf", form, s.GetYamlSpec(), len(s.GetProtoSpec()))
			}
		}
		one, err := w.dial(t).Get(t.Context(), r.Metadata())
		must(t, err)
		if !reflect.DeepEqual(one.Spec(), r.Spec()) || !one.Metadata().Equal(*r.Metadata()) {
			t.Errorf("got  %+v %+v\nwant %+v %+v", one.Metadata(), one.Spec(), r.Metadata(), r.Spec())
		}
	}
}

// TestAPanicInAFormEndsTheWatch: the client is told, and doesn't wait for events that never come.
func TestAPanicInAFormEndsTheWatch(t *testing.T) {
	w := serve(t, func(c *statesocket.Config) {
		c.Guard = func(st state.CoreState, _ statesocket.Limits) state.CoreState { return unreadable{st} }
	})
	must(t, w.state.Create(t.Context(), statetest.NewWorkload("1-1", statetest.WorkloadSpec{})))
	events := make(chan state.Event, 10)
	must(t, w.dial(t).WatchKind(t.Context(), workloads(), events, state.WithBootstrapContents(true)))
	if e := next(t, events); e.Type != state.Errored || !strings.Contains(e.Error.Error(), "its log has the details") || strings.Contains(e.Error.Error(), "no spec") {
		t.Errorf("got %s: %v", e.Type, e.Error)
	}
}

// unreadable is a state of resources whose specs can't be read.
type unreadable struct{ state.CoreState }

func (unreadable) WatchKind(ctx context.Context, _ resource.Kind, out chan<- state.Event, _ ...state.WatchKindOption) error {
	go func() {
		select {
		case out <- state.Event{Type: state.Created, Resource: specful{statetest.NewWorkload("1-1", statetest.WorkloadSpec{})}}:
		case <-ctx.Done():
		}
	}()
	return nil
}

type specful struct{ resource.Resource }

func (specful) Spec() any { panic("no spec") }
