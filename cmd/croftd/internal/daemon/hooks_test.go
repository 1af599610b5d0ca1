package daemon

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	cosi "github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/namespaced"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/hooks"
	"github.com/croft-edge/croft/pkg/resources/work"
)

// A hook hears how often an event happened since it was told before, not how often it happened at all.
func TestHooksAreToldHowOftenSinceBefore(t *testing.T) {
	s := cosi.WrapCore(namespaced.NewState(inmem.Build))
	told, ended := make(chan hooks.Event), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- tellHooks(ctx, s, told) }()
	next := func(want uint64) {
		t.Helper()
		for {
			select {
			case e := <-told:
				if e.ObjectID == "a" {
					continue
				}
				if e.Count != want || e.ObjectType != "volume" || e.ObjectID != "b" || e.Reason != "Drifted" {
					t.Errorf("%+v, want %d", e, want)
				}
				return
			case <-time.After(time.Minute):
				t.Fatal("no event is told")
			}
		}
	}
	write := func(id string, count int) {
		t.Helper()
		spec := work.EventSpec{Kind: work.Warning, Reason: "Drifted", Object: "volume/" + id, Count: count, Last: time.Unix(int64(count), 0)}
		fresh := work.NewEvent(id, spec)
		err := s.Create(ctx, fresh)
		if cosi.IsConflictError(err) {
			_, err = s.UpdateWithConflicts(ctx, fresh.Metadata(), func(r resource.Resource) error {
				*r.(*work.Event).TypedSpec() = spec
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// The watch may begin after the first event: it is written until one is told. Further ones of it may come late.
	for first := 1; ; first++ {
		write("a", first)
		select {
		case <-told:
		case <-time.After(50 * time.Millisecond):
			continue
		}
		break
	}
	write("b", 1)
	next(1)
	for _, each := range []struct{ count, want int }{{2, 1}, {3, 1}, {10, 7}, {1, 1}} {
		write("b", each.count)
		next(uint64(each.want))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A file of hooks that isn't used is logged once, and again when the reason is another one.
func TestRefusedHooksAreLogged(t *testing.T) {
	dir, err := os.MkdirTemp("/run", "croft-hooks-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var log bytes.Buffer
	c := Config{Log: zerolog.New(&log)}
	c.RunDir = t.TempDir()
	h, err := openHooks(c, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	load := func(text string, want int, part string) {
		t.Helper()
		log.Reset()
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, "wrong.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.load(dir); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), filepath.Join(dir, "wrong.yaml")); n != want || !strings.Contains(log.String(), part) {
			t.Errorf("logged %d times, want %d with %q: %s", n, want, part, log.String())
		}
	}
	load("runs: x\n", 1, `no field \"runs\"`)
	load("", 0, "")
	load("on: {cron: '@daily'}\nrun: [true]\n", 1, "absolute path")
	load("on: {cron: '@daily'}\nrun: [/bin/true]\n", 0, "")
	load("runs: x\n", 1, `no field \"runs\"`)
}
