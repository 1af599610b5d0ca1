package supervise_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/supervise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal records events, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) part(name string, takes time.Duration) supervise.Part {
	return supervise.Part{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(takes)
		j.add(name)
		return nil
	}}
}

func TestPartsStopInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		g := supervise.New(zerolog.Nop())
		for _, name := range []string{"bus", "modules", "engine"} {
			g.Start(j.part(name, time.Second))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := g.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if want := []string{"engine", "modules", "bus"}; !slices.Equal(j.lines, want) {
			t.Fatalf("stopped as %v, want %v", j.lines, want)
		}
		if took := time.Since(began); took != time.Minute+3*time.Second {
			t.Fatalf("took %s: parts must stop one after the other", took)
		}
	})
}

func TestAPartThatEndsTooEarlyStopsTheRest(t *testing.T) {
	broken := errors.New("the disk is gone")
	for _, c := range []struct {
		name string
		run  func(ctx context.Context) error
		want string
	}{
		{"with an error", func(context.Context) error { return broken }, "cannot go on without store: the disk is gone"},
		{"without one", func(context.Context) error { return nil }, "cannot go on without store: it ended by itself"},
		{"by a panic", func(context.Context) error { panic("boom") }, "cannot go on without store: cannot run store: panic: boom"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				g := supervise.New(zerolog.Nop())
				g.Start(j.part("bus", 0))
				g.Start(supervise.Part{Name: "store", Run: c.run})
				err := g.Wait(t.Context())
				if err == nil || !strings.HasPrefix(err.Error(), c.want) {
					t.Fatalf("got %v, want %q", err, c.want)
				}
				if !slices.Equal(j.lines, []string{"bus"}) {
					t.Fatalf("stopped %v, want the bus too", j.lines)
				}
			})
		})
	}
}

func TestAPartThatDoesNotStopCostsItsTimeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		release := make(chan struct{})
		g := supervise.New(zerolog.Nop())
		g.Start(j.part("bus", 0))
		g.Start(supervise.Part{Name: "engine", Within: 2 * time.Second, Run: func(context.Context) error {
			<-release
			return nil
		}})
		began := time.Now()
		err := g.Stop()
		if err == nil || err.Error() != "cannot stop engine: not within 2s" {
			t.Fatalf("got %v", err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Fatalf("took %s, want 2s", took)
		}
		if !slices.Equal(j.lines, []string{"bus"}) {
			t.Fatal("the bus wasn't stopped after the engine was given up")
		}
		close(release)
	})
}

func TestAnErrorWhileStoppingIsTold(t *testing.T) {
	g := supervise.New(zerolog.Nop())
	g.Start(supervise.Part{Name: "feedback", Run: func(ctx context.Context) error {
		<-ctx.Done()
		return errors.New("3 results are undelivered")
	}})
	g.Start(supervise.Part{Name: "poll", Run: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	err := g.Stop()
	if err == nil || err.Error() != "cannot stop feedback well: 3 results are undelivered" {
		t.Fatalf("got %v", err)
	}
	if err := g.Stop(); err != nil {
		t.Fatalf("stopping twice: %v", err)
	}
}
