package supervise_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// syncedLog is a log that can be read while it is written.
type syncedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *syncedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *syncedLog) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

func TestGuardMakesAPanicAnError(t *testing.T) {
	log := &syncedLog{}
	err := supervise.Guard(zerolog.New(log), "poll", func() error { panic("boom") })
	if node.KindOf(err) != node.Internal || err.Error() != "cannot run poll: panic: boom" {
		t.Errorf("got %v of kind %s", err, node.KindOf(err))
	}
	var p *supervise.Panic
	if !errors.As(err, &p) || p.Cause != "boom" || !strings.Contains(string(p.Stack), "guard_test.go") {
		t.Errorf("no panic with its stack in %#v", err)
	}
	if log.count("\n") != 1 || log.count("guard_test.go") == 0 || log.count(`"goroutine":"poll"`) != 1 {
		t.Errorf("logged %s", log.text.String())
	}
}

// A panic that goes through several guards is logged by the first that has a logger.
func TestAPanicIsLoggedOnce(t *testing.T) {
	log := &syncedLog{}
	err := supervise.Guard(zerolog.New(log), "engine", func() error {
		return supervise.Guard(zerolog.New(log), "feedback", func() error {
			return fmt.Errorf("cannot send: %w", supervise.Catch("sender", func() error { panic("boom") }))
		})
	})
	if err == nil || err.Error() != "cannot send: cannot run sender: panic: boom" {
		t.Errorf("got %v", err)
	}
	if log.count("\n") != 1 || log.count(`"goroutine":"sender"`) != 1 {
		t.Errorf("logged %s", log.text.String())
	}
}

func TestGuardPassesErrorsOn(t *testing.T) {
	log := &syncedLog{}
	full := errors.New("full")
	if err := supervise.Guard(zerolog.New(log), "poll", func() error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if err := supervise.Guard(zerolog.New(log), "poll", func() error { return nil }); err != nil {
		t.Errorf("got %v", err)
	}
	ran := false
	if !supervise.Do(zerolog.New(log), "poll", func() { ran = true }) || !ran {
		t.Error("what came to its end is said not to have")
	}
	if log.count("\n") != 0 {
		t.Errorf("logged %s", log.text.String())
	}
	if supervise.Do(zerolog.New(log), "poll", func() { panic(errors.New("boom")) }) || log.count("boom") == 0 {
		t.Error("what panicked is said to have come to its end")
	}
}

// A function that panics, fails or just returns is run again, ever more seldom; a long
// run resets the failures.
func TestKeepRunsAgain(t *testing.T) {
	for name, end := range map[string]func() error{
		"a panic":  func() error { panic("boom") },
		"an error": func() error { return errors.New("boom") },
		"nothing":  func() error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &syncedLog{}
				ctx, cancel := context.WithCancel(t.Context())
				var began []time.Time
				start := time.Now()
				stopped := errors.New("stopped")
				b := backoff.Backoff{Base: time.Second, Max: 8 * time.Second}
				err := supervise.Keep(ctx, zerolog.New(log), "poll", b, func(ctx context.Context) error {
					began = append(began, time.Now())
					switch len(began) {
					case 7:
						time.Sleep(time.Minute)
					case 9:
						cancel()
						return stopped
					}
					return end()
				})
				if !errors.Is(err, stopped) || len(began) != 9 {
					t.Fatalf("ended with %v after %d runs", err, len(began))
				}
				if grown := began[6].Sub(began[5]); grown < 4*time.Second || grown > 8*time.Second {
					t.Errorf("the wait has grown to %s, want between 4 and 8 s", grown)
				}
				if again := began[7].Sub(began[6]) - time.Minute; again > time.Second {
					t.Errorf("waited %s after a long run, want at most 1 s", again)
				}
				if log.count("ended too early") != 8 || log.count(`"goroutine":"poll"`) != 8 {
					t.Errorf("logged in %s: %s", time.Since(start), log.text.String())
				}
				if stacks := log.count("guard_test.go"); (stacks > 0) != (name == "a panic") {
					t.Errorf("logged %d stacks", stacks)
				}
			})
		})
	}
}

func TestKeepEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		keep := func(ctx context.Context, log *syncedLog, f func(context.Context) error) error {
			return supervise.Keep(ctx, zerolog.New(log), "poll", supervise.DefaultBackoff(), func(ctx context.Context) error {
				runs++
				return f(ctx)
			})
		}
		quiet := &syncedLog{}
		if err := keep(t.Context(), quiet, func(context.Context) error { return fmt.Errorf("poll: %w", supervise.ErrEnded) }); err != nil || runs != 1 {
			t.Errorf("what has nothing left to do ended with %v after %d runs", err, runs)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		start := time.Now()
		if err := keep(ctx, &syncedLog{}, func(context.Context) error { panic("boom") }); err != nil || time.Since(start) > time.Second {
			t.Errorf("stopped while it waited: %v after %s", err, time.Since(start))
		}
		runs = 0
		if err := keep(ctx, quiet, func(context.Context) error { return nil }); err != nil || runs != 0 || quiet.count("\n") != 0 {
			t.Errorf("after its end it ran %d times: %v, %s", runs, err, quiet.text.String())
		}
		stopping := &syncedLog{}
		ctx, cancel = context.WithCancel(t.Context())
		err := keep(ctx, stopping, func(context.Context) error { cancel(); panic("boom") })
		if node.KindOf(err) != node.Internal || stopping.count("guard_test.go") == 0 {
			t.Errorf("a panic while stopping: %v, logged %s", err, stopping.text.String())
		}
	})
}

// A part that may be run again doesn't end the others.
func TestAPartIsRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := supervise.New(zerolog.Nop())
		runs := 0
		last := errors.New("3 results are undelivered")
		g.Start(supervise.Part{Name: "poll", Again: true, Run: func(ctx context.Context) error {
			if runs++; runs < 4 {
				panic("boom")
			}
			<-ctx.Done()
			return last
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := g.Wait(ctx); !errors.Is(err, last) || runs != 4 || ctx.Err() == nil {
			t.Errorf("ended with %v after %d runs", err, runs)
		}
	})
}

func TestBackoffGrowsToItsMost(t *testing.T) {
	b := supervise.DefaultBackoff()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(-1, 1<<20).Draw(t, "failures")
		full := time.Minute
		if n < 7 {
			full = time.Second << max(n-1, 0)
		}
		if d := b.Delay(n); d < full/2 || d > full {
			t.Fatalf("delay %d is %s, want between %s and %s", n, d, full/2, full)
		}
	})
	if d := (backoff.Backoff{}).Delay(3); d != 0 {
		t.Fatalf("the zero backoff waits %s", d)
	}
}
