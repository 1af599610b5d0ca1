package plane

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/cosi-project/runtime/pkg/controller/conformance"
	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/cosi-project/runtime/pkg/controller/runtime/options"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	stateconformance "github.com/cosi-project/runtime/pkg/state/conformance"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/suite"

	"github.com/croft-edge/croft/internal/testing/statetest"
	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/statesocket"
)

// onDisk makes a plane whose history is a file.
func onDisk(t *testing.T) (*Plane, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.db")
	return open(t, Config{History: path, Key: make([]byte, keyBytes)}), path
}

// TestStateSuite: the state is one by the library's own rules, in memory and on the disk.
func TestStateSuite(t *testing.T) {
	p, _ := onDisk(t)
	defer p.Close()
	suite.Run(t, &stateconformance.StateSuite{
		State: p.State(), Namespaces: []resource.Namespace{resources.Node, resources.History, "orders", "other"},
	})
}

// TestStateSuiteThroughSocket is TestStateSuite for a client of the state's socket that may write.
func TestStateSuiteThroughSocket(t *testing.T) {
	p, _ := onDisk(t)
	defer p.Close()
	dir, err := os.MkdirTemp("", "croft-plane-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "state.sock")
	everything := func(s state.CoreState, _ statesocket.Limits) state.CoreState { return s }
	server, err := statesocket.Listen(t.Context(), statesocket.Config{Path: path, State: p.State(), Guard: everything, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	client, err := statesocket.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	suite.Run(t, &stateconformance.StateSuite{
		State: statetest.Answered(client), Namespaces: []resource.Namespace{resources.Node, resources.History, "orders", "other"},
	})
	_ = client.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestRuntimeSuite: controllers work on the state by the library's own rules.
func TestRuntimeSuite(t *testing.T) {
	var p *Plane
	suite.Run(t, &conformance.RuntimeSuite{
		SetupRuntime: func(s *conformance.RuntimeSuite) {
			p = open(t, Config{})
			s.State = p.State()
			var err error
			s.Runtime, err = runtime.NewRuntime(p.State(), logger(zerolog.Nop()), options.WithMetrics(true))
			s.Require().NoError(err)
		},
		TearDownRuntime: func(*conformance.RuntimeSuite) { _ = p.Close() },
	})
}
