package stubs_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"
	"github.com/vmihailenco/msgpack"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/workload"
)

// storage is a node.Storage with a test's answers.
type storage struct {
	node.Storage
	fail error
	uses chan node.PoolUse
}

func (s *storage) CreateFilesystem(spec node.FilesystemSpec) (node.Filesystem, error) {
	return node.Filesystem{Name: spec.Name, Size: spec.Size, DiskType: spec.DiskType}, s.fail
}

func (s *storage) ReleaseFilesystem(string) error { return s.fail }

func (s *storage) Monitor(context.Context) <-chan node.PoolUse { return s.uses }

func serve(t *testing.T, impl node.Storage) (*bus.InProcess, *bus.Client) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	b := bus.NewInProcess()
	t.Cleanup(func() { _ = b.Close() })
	s, err := bus.NewServer(b, node.StorageModule, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Register(s, bus.Object(node.StorageObject, node.StorageVersion), impl); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	c := bus.NewClient(b, bus.Options{Timeout: 5 * time.Second})
	t.Cleanup(func() {
		_ = c.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b, c
}

func TestStubCallsItsContract(t *testing.T) {
	impl := &storage{}
	_, c := serve(t, impl)
	stub := stubs.NewStorageStub(c)
	spec := node.FilesystemSpec{Name: "1-1", Size: 5 << 30, DiskType: workload.SSD}
	fs, err := stub.CreateFilesystem(t.Context(), spec)
	if err != nil || fs.Name != "1-1" || fs.Size != 5<<30 || fs.DiskType != workload.SSD {
		t.Errorf("got %+v, %v", fs, err)
	}
	if err := stub.ReleaseFilesystem(t.Context(), "1-1"); err != nil {
		t.Error(err)
	}
	impl.fail = node.Errorf(node.NoSpace, "cannot make 1-1: 5 GiB are needed, 3 GiB are free")
	fs, err = stub.CreateFilesystem(t.Context(), spec)
	if !errors.Is(err, node.NoSpace) || err.Error() != impl.fail.Error() || fs != (node.Filesystem{}) {
		t.Errorf("got %+v, %v", fs, err)
	}
	impl.fail = node.Errorf(node.NotExist, "cannot find 1-1")
	if err := stub.ReleaseFilesystem(t.Context(), "1-1"); !errors.Is(err, node.NotExist) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := stubs.NewHostMonitorStub(c).Info(ctx); !errors.Is(err, node.Unknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody serves it, got %v", err)
	}
	// A method of the contract that panics.
	if _, err := stub.Status(t.Context()); !errors.Is(err, node.Internal) {
		t.Errorf("got %v", err)
	}
}

func TestStreamOfManyThingsKeepsEach(t *testing.T) {
	impl := &storage{uses: make(chan node.PoolUse)}
	_, c := serve(t, impl)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	uses, err := stubs.NewStorageStub(c).Monitor(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		impl.uses <- node.PoolUse{Name: fmt.Sprint(i)}
	}
	for i := range 40 {
		if use := receive(t, uses); use.Name != fmt.Sprint(i) {
			t.Fatalf("event %d is %q", i, use.Name)
		}
	}
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-from:
		if !ok {
			t.Fatal("the stream has ended")
		}
		return v
	case <-time.After(5 * time.Second):
		t.Fatal("no event in 5 s")
	}
	panic("not reached")
}

// fake is a client with a test's answers. It counts the events that stubs skip.
type fake struct {
	zbus.Client
	response *zbus.Response
	err      error
	events   chan zbus.Event
	skipped  atomic.Int64
}

func (f *fake) RequestContext(context.Context, string, zbus.ObjectID, string, ...any) (*zbus.Response, error) {
	return f.response, f.err
}

func (f *fake) Stream(context.Context, string, zbus.ObjectID, string) (<-chan zbus.Event, error) {
	return f.events, f.err
}

func (f *fake) SkippedEvent(string, zbus.ObjectID, string, error) { f.skipped.Add(1) }

func event(t *testing.T, v any) zbus.Event {
	t.Helper()
	e, err := msgpack.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestSlowReaderOfCountersGetsTheNewest(t *testing.T) {
	f := &fake{events: make(chan zbus.Event)}
	ctx, cancel := context.WithCancel(t.Context())
	counters, err := stubs.NewProvisionStub(f).Counters(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(100) {
		f.events <- event(t, workload.ProvisionCounters{Volume: i})
		// The stub has taken this event when it takes the next one.
		f.events <- zbus.Event{0xc1}
	}
	if got := receive(t, counters); got.Volume != 99 {
		t.Errorf("got %d, the newest is 99", got.Volume)
	}
	if n := f.skipped.Load(); n < 99 {
		t.Errorf("%d undecodable events were told, want 100", n)
	}
	// The client doesn't close its channel; the stream ends all the same.
	cancel()
	select {
	case _, open := <-counters:
		if open {
			t.Error("an event came")
		}
	case <-time.After(time.Second):
		t.Error("the stream outlives its context")
	}
}

func allStubs(c zbus.Client) []any {
	return []any{
		stubs.NewStorageStub(c), stubs.NewVDisksStub(c), stubs.NewIdentityManagerStub(c), stubs.NewVersionMonitorStub(c),
		stubs.NewContainersStub(c), stubs.NewImagesStub(c), stubs.NewNetworksStub(c), stubs.NewTapsStub(c),
		stubs.NewFlistsStub(c), stubs.NewVMsStub(c), stubs.NewZDBNamespacesStub(c), stubs.NewDebugStub(c),
		stubs.NewProvisionStub(c), stubs.NewSystemMonitorStub(c), stubs.NewHostMonitorStub(c),
	}
}

// Every method of every stub, with every bad answer that a client may give: an
// error, never a panic, and no result beside it.
func TestNoStubPanics(t *testing.T) {
	protocol, empty := "no such method", ""
	for _, bad := range []struct {
		name     string
		response *zbus.Response
		err      error
		kind     node.Kind
	}{
		{"nothing at all", nil, nil, node.Unknown},
		{"an error of no kind", nil, errors.New("gone"), node.Unknown},
		{"a kinded error", nil, node.Errorf(node.Busy, "busy"), node.Busy},
		{"both", &zbus.Response{}, node.Errorf(node.Busy, "busy"), node.Busy},
		{"a protocol error", &zbus.Response{Error: &protocol}, nil, node.Internal},
		{"an empty protocol error", &zbus.Response{Error: &empty}, nil, node.Internal},
		{"a call error", &zbus.Response{Output: zbus.Output{Error: &zbus.CallError{Message: "no"}}}, nil, node.Internal},
		{"an empty call error", &zbus.Response{Output: zbus.Output{Error: &zbus.CallError{}}}, nil, node.Internal},
		{"garbage", &zbus.Response{Output: zbus.Output{Data: []byte{0xc1}}}, nil, node.Internal},
		{"no result", &zbus.Response{}, nil, node.Internal},
	} {
		f := &fake{response: bad.response, err: bad.err, events: make(chan zbus.Event)}
		close(f.events)
		calls := 0
		for _, stub := range allStubs(f) {
			v := reflect.ValueOf(stub)
			for i := range v.NumMethod() {
				name := v.Type().Elem().Name() + "." + v.Type().Method(i).Name
				out := callZero(v.Method(i))
				err, _ := out[len(out)-1].Interface().(error)
				// Without an expected result an empty answer is right; a stream that can be
				// opened and ends is no error either.
				stream := out[0].Kind() == reflect.Chan
				if (stream && bad.err == nil) || (len(out) == 1 && strings.HasPrefix(bad.name, "no result")) || (len(out) == 1 && bad.name == "garbage") {
					continue
				}
				calls++
				if err == nil || (node.KindOf(err) != bad.kind && !stream) {
					t.Errorf("%s, %s: %v of kind %s, want %s", name, bad.name, err, node.KindOf(err), bad.kind)
				}
				if err != nil && (err.Error() == "" || (len(out) == 2 && !out[0].IsZero())) {
					t.Errorf("%s, %s: %v beside %v", name, bad.name, out[0], err)
				}
			}
		}
		if calls < 30 {
			t.Errorf("%s: only %d calls were made", bad.name, calls)
		}
	}
}

func callZero(method reflect.Value) []reflect.Value {
	args := []reflect.Value{reflect.ValueOf(context.Background())}
	for i := 1; i < method.Type().NumIn(); i++ {
		args = append(args, reflect.Zero(method.Type().In(i)))
	}
	return method.Call(args)
}
