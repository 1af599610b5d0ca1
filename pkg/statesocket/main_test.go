package statesocket_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/conformance"
	"github.com/cosi-project/runtime/pkg/state/protobuf/client"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/croft-edge/croft/internal/testing/statetest"
	"github.com/croft-edge/croft/pkg/statesocket"
)

// bareEnv names the socket for the bare client that this program is then.
const bareEnv = "STATESOCKET_BARE_CLIENT"

func TestMain(m *testing.M) {
	if path := os.Getenv(bareEnv); path != "" {
		if err := bareClient(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := protobuf.RegisterResource(conformance.PathResourceType, &conformance.PathResource{}); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// bareClient is a COSI client that has none of the node's types, in a process of its own.
func bareClient(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	st := state.WrapCore(client.NewAdapter(v1alpha1.NewStateClient(conn)))
	kind := resource.NewMetadata(statetest.Node, statetest.WorkloadType, "", resource.VersionUndefined)
	r, err := st.Get(ctx, resource.NewMetadata(statetest.Node, statetest.WorkloadType, "1-1", resource.VersionUndefined))
	if err != nil {
		return err
	}
	fmt.Printf("get %s %T\n", r.Metadata().ID(), r)
	events := make(chan state.Event)
	if err := st.WatchKind(ctx, kind, events, state.WithBootstrapContents(true)); err != nil {
		return err
	}
	for n := 0; n < 3; n++ {
		select {
		case e := <-events:
			fmt.Printf("%s %s %s\n", e.Type, e.Resource.Metadata().ID(), e.Resource.Metadata().Version())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// world is a served state.
type world struct {
	state  state.State
	socket string
}

// serve serves a fresh state; change changes its configuration.
func serve(t *testing.T, change func(*statesocket.Config)) world {
	t.Helper()
	st, err := statetest.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := world{state: st, socket: filepath.Join(t.TempDir(), "s.sock")}
	config := statesocket.Config{Path: w.socket, State: st, Log: zerolog.Nop(), Limits: statesocket.DefaultLimits()}
	if change != nil {
		change(&config)
	}
	s, err := statesocket.Listen(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(w.socket); !os.IsNotExist(err) {
			t.Errorf("the socket is left behind: %v", err)
		}
	})
	return w
}

// dial connects; the connection ends before the server.
func (w world) dial(t *testing.T) *statesocket.Client {
	t.Helper()
	c, err := statesocket.Dial(t.Context(), w.socket, client.WithDisableWatchRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// raw is the gRPC client under it.
func (w world) raw(t *testing.T) v1alpha1.StateClient { return v1alpha1.NewStateClient(w.rawConn(t)) }

func (w world) rawConn(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+w.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func workloads() resource.Metadata { return workload("") }

func workload(id string) resource.Metadata {
	return resource.NewMetadata(statetest.Node, statetest.WorkloadType, id, resource.VersionUndefined)
}

func order(id string) resource.Metadata {
	return resource.NewMetadata(statetest.Orders, statetest.OrderType, id, resource.VersionUndefined)
}

// next is the next event of a watch.
func next(t *testing.T, events <-chan state.Event) state.Event {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(time.Minute):
		t.Fatal("no event after a minute")
		return state.Event{}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until ok says so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s after a minute", what)
		}
	}
}
