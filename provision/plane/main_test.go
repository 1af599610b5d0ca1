package plane

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/state/conformance"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) {
	if err := protobuf.RegisterResource(conformance.PathResourceType, &conformance.PathResource{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// soon bounds the wait for what happens at once on an idle machine.
const soon = time.Minute

// until waits for something to be so.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(soon); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not so after %s: %s", soon, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// open makes a plane in memory.
func open(t *testing.T, c Config) *Plane {
	t.Helper()
	c.Log = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	p, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs a plane's controllers until the test's end or the call of stop.
func run(t *testing.T, p *Plane) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
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
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// probe is a controller made of functions.
type probe struct {
	name    string
	inputs  []controller.Input
	outputs []controller.Output
	do      func(ctx context.Context, r controller.Runtime) error
}

func (p *probe) Name() string                 { return p.name }
func (p *probe) Inputs() []controller.Input   { return p.inputs }
func (p *probe) Outputs() []controller.Output { return p.outputs }

func (p *probe) Run(ctx context.Context, r controller.Runtime, _ *zap.Logger) error {
	for {
		if err := p.do(ctx, r); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.EventCh():
		}
	}
}
