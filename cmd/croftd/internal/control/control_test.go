package control_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/cmd/croftd/internal/control"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a node that records the calls.
type fake struct {
	status nodestatus.Status
	asked  []string
	err    error
}

func (f *fake) Status(context.Context) (nodestatus.Status, error) { return f.status, f.err }

func (f *fake) note(what string) error {
	f.asked = append(f.asked, what)
	return f.err
}

func (f *fake) Evict(_ context.Context, id string) error { return f.note("evict " + id) }
func (f *fake) AcceptOlder(context.Context) error        { return f.note("accept older") }
func (f *fake) RefuseOlder(context.Context) error        { return f.note("refuse older") }
func (f *fake) Restored(context.Context) error           { return f.note("restored") }

// serve runs a control socket for the test.
func serve(t *testing.T, n control.Node) (client *control.Client, socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "run", "control.sock")
	s, err := control.Listen(t.Context(), socket, n, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(socket); !os.IsNotExist(err) {
			t.Errorf("the socket is left behind: %v", err)
		}
	})
	return control.NewClient(socket), socket
}

func TestStatusCrossesWhole(t *testing.T) {
	now := time.Now().Truncate(0)
	f := &fake{status: nodestatus.Status{
		NodeID: "n", Started: now, OneProcess: true, Undelivered: 2,
		Store:     nodestatus.Store{Birth: "b", Quarantined: []string{"1-1"}},
		Explorer:  nodestatus.Explorer{URL: "http://e", LastContact: &now},
		Clock:     nodestatus.Clock{Trusted: true, Level: "remove", Source: "ntp", Uptime: 77},
		Storage:   nodestatus.Storage{Pools: []node.Pool{{Name: "ssd0", Total: 5, Devices: []string{"/dev/loop1"}}}},
		Counters:  workload.ProvisionCounters{Volume: 3},
		Workloads: []nodestatus.Workload{{ID: "1-1", Type: workload.TypeVolume, Phase: "retry", Attempts: 4, NextAttempt: &now, Expires: now}},
		Orphans:   []nodestatus.Orphan{{Type: workload.TypeVolume, ID: "9-1", Since: now}},
	}}
	c, _ := serve(t, f)
	got, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got.Started, *got.Explorer.LastContact, got.Orphans[0].Since = now, now, now
	got.Workloads[0].Expires, got.Workloads[0].NextAttempt = now, &now
	if !reflect.DeepEqual(got, f.status) {
		t.Fatalf("got  %+v\nwant %+v", got, f.status)
	}
}

func TestOrdersAndTheirErrors(t *testing.T) {
	f := &fake{}
	c, _ := serve(t, f)
	for _, order := range []func() error{
		func() error { return c.Evict(t.Context(), "007-1") },
		func() error { return c.AcceptOlder(t.Context()) },
		func() error { return c.RefuseOlder(t.Context()) },
		func() error { return c.Restored(t.Context()) },
	} {
		if err := order(); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"evict 7-1", "accept older", "refuse older", "restored"}; !reflect.DeepEqual(f.asked, want) {
		t.Fatalf("asked %v", f.asked)
	}
	f.err = node.Errorf(node.NotExist, "cannot evict 7-1: there is none")
	err := c.Evict(t.Context(), "7-1")
	if !errors.Is(err, node.NotExist) || err.Error() != f.err.Error() {
		t.Fatalf("got %v", err)
	}
	before := len(f.asked)
	err = c.Evict(t.Context(), "../../etc")
	if !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), "must be N-M") || len(f.asked) != before {
		t.Fatalf("got %v, asked %v", err, f.asked)
	}
}

func TestOnlyRootMayOpenIt(t *testing.T) {
	_, socket := serve(t, &fake{})
	info, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, must be 0600", info.Mode().Perm())
	}
	left, err := os.ReadDir(filepath.Dir(socket))
	if err != nil || len(left) != 1 {
		t.Fatalf("beside the socket: %v, %v", left, err)
	}
}

func TestASecondNodeIsRefusedAndAStaleSocketReplaced(t *testing.T) {
	_, socket := serve(t, &fake{})
	_, err := control.Listen(t.Context(), socket, &fake{}, zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), "another process serves it") {
		t.Fatalf("got %v", err)
	}
	stale := filepath.Join(t.TempDir(), "control.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	s, err := control.Listen(t.Context(), stale, &fake{}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestNoServer(t *testing.T) {
	_, err := control.NewClient(filepath.Join(t.TempDir(), "no.sock")).Status(t.Context())
	if !errors.Is(err, control.ErrNotRunning) {
		t.Fatalf("got %v", err)
	}
}
