package statesocket_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/rs/zerolog"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/croft-edge/croft/internal/testing/statetest"
	"github.com/croft-edge/croft/pkg/statesocket"
)

func contextWithCancel(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx, cancel
}

func TestLargeMessagesAreRefused(t *testing.T) {
	w := serve(t, nil)
	raw := w.raw(t)
	_, err := raw.Create(t.Context(), &v1alpha1.CreateRequest{Resource: &v1alpha1.Resource{Spec: &v1alpha1.Spec{ProtoSpec: make([]byte, 10<<20)}}})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "larger than max") {
		t.Errorf("got %v", err)
	}
	if _, err := raw.Get(t.Context(), &v1alpha1.GetRequest{Namespace: statetest.Node, Type: statetest.WorkloadType, Id: "1-1"}); status.Code(err) != codes.NotFound {
		t.Errorf("the connection is unusable after it: %v", err)
	}
}

// TestWatchesAreBounded: as many as a node allows work at once, one more gets a clear error, and each ended one makes room.
func TestWatchesAreBounded(t *testing.T) {
	w := serve(t, nil)
	most := statesocket.DefaultLimits().Watches
	if most < 100 {
		t.Fatalf("only %d watches are allowed", most)
	}
	clients := []*statesocket.Client{w.dial(t), w.dial(t), w.dial(t)}
	var cancels []context.CancelFunc
	var all []chan state.Event
	for i := range most {
		ctx, cancel := context.WithCancel(t.Context())
		cancels = append(cancels, cancel)
		events := make(chan state.Event)
		must(t, clients[i%3].WatchKind(ctx, workloads(), events))
		all = append(all, events)
	}
	must(t, w.state.Create(t.Context(), statetest.NewWorkload("1-1", statetest.WorkloadSpec{})))
	for i, events := range all {
		if e := next(t, events); e.Type != state.Created || e.Resource.Metadata().ID() != "1-1" {
			t.Errorf("watch %d: %v", i, e)
		}
	}
	err := clients[0].WatchKind(t.Context(), workloads(), make(chan state.Event))
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), fmt.Sprintf("cannot begin another watch: at most %d", most)) {
		t.Errorf("one more: %v", err)
	}
	if _, err := clients[0].List(t.Context(), workloads()); err != nil {
		t.Errorf("lists are refused, too: %v", err)
	}
	for _, cancel := range cancels {
		cancel()
	}
	eventually(t, "ended watches keep their places", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		return clients[0].WatchKind(ctx, workloads(), make(chan state.Event)) == nil
	})
}

// flood updates a workload n times with large events, each of which the reader has seen before the next.
func flood(t *testing.T, w world, n int, seen <-chan state.Event) {
	t.Helper()
	text := strings.Repeat("x", 8<<10)
	for i := range n {
		_, err := safe.StateUpdateWithConflicts(t.Context(), w.state, workload("1-1"), func(r *statetest.Workload) error {
			r.TypedSpec().Attempts, r.TypedSpec().Message = uint32(i+1), text
			return nil
		})
		must(t, err)
		if e := next(t, seen); e.Type != state.Updated || e.Resource.(*statetest.Workload).TypedSpec().Attempts != uint32(i+1) {
			t.Fatalf("the other watcher's event %d: %v, %v", i, e.Type, e.Error)
		}
	}
}

// TestAClientThatNeverReads: it costs a bounded buffer, another watcher misses nothing, and after a while its
// watch ends, gives its place back, and tells the client when it reads at last.
func TestAClientThatNeverReads(t *testing.T) {
	w := serve(t, func(c *statesocket.Config) { c.Limits.Stuck, c.Limits.Watches = 2*time.Second, 2 })
	must(t, w.state.Create(t.Context(), statetest.NewWorkload("1-1", statetest.WorkloadSpec{})))
	seen := make(chan state.Event)
	reader := w.dial(t)
	must(t, reader.WatchKind(t.Context(), workloads(), seen))
	stuck, err := w.raw(t).Watch(t.Context(), &v1alpha1.WatchRequest{Namespace: statetest.Node, Type: statetest.WorkloadType, ApiVersion: 1, Options: &v1alpha1.WatchOptions{}})
	must(t, err)
	if _, err := stuck.Recv(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	flood(t, w, 400, seen) // 13 MB of events, with what each replaced: the state itself remembers a part of them
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	eventually(t, "the stuck watch keeps its place", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		return reader.WatchKind(ctx, workloads(), make(chan state.Event)) == nil
	})
	events := 0
	for err == nil {
		if _, err = stuck.Recv(); err == nil {
			events++
		}
	}
	if events == 400 || status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "the client hasn't read for 2s") {
		t.Errorf("it gets %d events and then %v", events, err)
	}
}

// TestASlowClientIsTold: it lost events, and its watch ends with an error instead of a gap.
func TestASlowClientIsTold(t *testing.T) {
	w := serve(t, func(c *statesocket.Config) { c.Limits.Stuck = time.Hour })
	must(t, w.state.Create(t.Context(), statetest.NewWorkload("1-1", statetest.WorkloadSpec{})))
	seen := make(chan state.Event)
	must(t, w.dial(t).WatchKind(t.Context(), workloads(), seen))
	slow := make(chan state.Event)
	must(t, w.dial(t).WatchKind(t.Context(), workloads(), slow))
	flood(t, w, 250, seen)
	for {
		e := next(t, slow)
		if e.Type == state.Errored {
			if !strings.Contains(e.Error.Error(), "overrun") {
				t.Errorf("got %v", e.Error)
			}
			break
		}
	}
	if e := next(t, slow); e.Type != state.Errored || !strings.Contains(e.Error.Error(), "the watch has ended because the client was too slow") {
		t.Errorf("then %v", e)
	}
}

// panicky is a state with a defect.
type panicky struct{ state.CoreState }

func (panicky) Get(context.Context, resource.Pointer, ...state.GetOption) (resource.Resource, error) {
	panic("defect in get")
}

func (panicky) List(context.Context, resource.Kind, ...state.ListOption) (resource.List, error) {
	panic("defect in list")
}

// synced is a log that is read while it is written.
type synced struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *synced) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *synced) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func TestPanicsAreCaught(t *testing.T) {
	var log synced
	w := serve(t, func(c *statesocket.Config) {
		c.Log = zerolog.New(&log)
		c.Guard = func(core state.CoreState, _ statesocket.Limits) state.CoreState { return panicky{core} }
	})
	c := w.dial(t)
	for range 2 {
		_, get := c.Get(t.Context(), workload("1-1"))
		_, list := c.List(t.Context(), workloads())
		for verb, err := range map[string]error{"get": get, "list": list} {
			if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "internal error of the node") || strings.Contains(err.Error(), "defect") {
				t.Errorf("%s: %v", verb, err)
			}
			if !strings.Contains(log.String(), "defect in "+verb) {
				t.Errorf("%s isn't in the log: %s", verb, log.String())
			}
		}
	}
}

// TestRequestsThatTheLibraryCannotAnswer: without options its server panics, and version 0 hides lost events.
func TestRequestsThatTheLibraryCannotAnswer(t *testing.T) {
	raw := serve(t, nil).raw(t)
	for want, req := range map[string]*v1alpha1.WatchRequest{
		"options are missing": {Namespace: statetest.Node, Type: statetest.WorkloadType, ApiVersion: 1},
		"api_version is 0":    {Namespace: statetest.Node, Type: statetest.WorkloadType, Options: &v1alpha1.WatchOptions{}},
	} {
		stream, err := raw.Watch(t.Context(), req)
		must(t, err)
		if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
	for name, err := range map[string]error{
		"create nothing": func() error { _, err := raw.Create(t.Context(), &v1alpha1.CreateRequest{}); return err }(),
		"update nothing": func() error { _, err := raw.Update(t.Context(), &v1alpha1.UpdateRequest{}); return err }(),
		"unregistered": func() error {
			_, err := raw.Create(t.Context(), &v1alpha1.CreateRequest{Resource: &v1alpha1.Resource{
				Metadata: &v1alpha1.Metadata{Namespace: statetest.Orders, Type: "Orders.else", Id: "x", Version: "1", Phase: "running"}, Spec: &v1alpha1.Spec{},
			}})
			return err
		}(),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestDeadConnectionsEnd: one that never speaks, and one that speaks once and then answers no ping.
func TestDeadConnectionsEnd(t *testing.T) {
	w := serve(t, func(c *statesocket.Config) {
		c.Limits.Connections, c.Limits.Ping, c.Limits.PingTimeout = 2, time.Second, time.Second
	})
	silent, err := net.Dial("unix", w.socket)
	must(t, err)
	defer silent.Close()
	deaf, err := net.Dial("unix", w.socket)
	must(t, err)
	defer deaf.Close()
	_, err = io.WriteString(deaf, http2.ClientPreface)
	must(t, err)
	must(t, http2.NewFramer(deaf, nil).WriteSettings())
	for name, c := range map[string]net.Conn{"silent": silent, "deaf": deaf} {
		must(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: its connection is still open after a minute", name)
		}
	}
	if _, err := w.dial(t).List(t.Context(), workloads()); err != nil {
		t.Errorf("their places aren't free: %v", err)
	}
}

// TestAnIdleConnectionEndsAndIsOpenedAgain: a client that asks nothing costs no connection, and needn't know.
func TestAnIdleConnectionEndsAndIsOpenedAgain(t *testing.T) {
	w := serve(t, func(c *statesocket.Config) { c.Limits.Idle, c.Limits.Connections = 500*time.Millisecond, 1 })
	c := w.dial(t)
	_, err := c.List(t.Context(), workloads())
	must(t, err)
	eventually(t, "the idle connection keeps the only place", func() bool {
		other, err := statesocket.Dial(t.Context(), w.socket)
		if err != nil {
			return false
		}
		defer other.Close()
		_, err = other.List(t.Context(), workloads())
		return err == nil
	})
	eventually(t, "the client doesn't connect again", func() bool {
		_, err := c.List(t.Context(), workloads())
		return err == nil
	})
}

// TestARequestThatNeverComesEnds: its stream holds no place and no thread for ever.
func TestARequestThatNeverComesEnds(t *testing.T) {
	w := serve(t, func(c *statesocket.Config) { c.Limits.Stuck, c.Limits.Watches = 300*time.Millisecond, 1 })
	conn := w.rawConn(t)
	stream, err := conn.NewStream(t.Context(), &v1alpha1.State_ServiceDesc.Streams[1], v1alpha1.State_Watch_FullMethodName)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	must(t, w.dial(t).WatchKind(ctx, workloads(), make(chan state.Event)))
	cancel()
	if err := stream.RecvMsg(&v1alpha1.WatchResponse{}); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "hasn't sent its request for 300ms") {
		t.Errorf("got %v", err)
	}
}
