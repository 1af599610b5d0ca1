package daemon

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/pkg/supervise"
)

// TestOnlyBusStoreAndEngineEndTheProcess: every other part that this package starts is run again.
func TestOnlyBusStoreAndEngineEndTheProcess(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var end, again []string
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			part, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			of, ok := part.Type.(*ast.SelectorExpr)
			if !ok || of.Sel.Name != "Part" {
				return true
			}
			name, kept := partOf(part)
			if kept {
				again = append(again, name)
			} else {
				end = append(end, name)
			}
			return true
		})
	}
	slices.Sort(end)
	// The client is the engine's side of the bus.
	if want := []string{"client", "engine", "store"}; !slices.Equal(end, want) {
		t.Errorf("the failures of %q end the process, want only those of %q", end, want)
	}
	for _, name := range []string{"state", "changes", "health", "mirrors", "limits", "reload", "modules", "door", "broker", "log lines", "memory"} {
		if !slices.Contains(again, name) {
			t.Errorf("no part %q that is run again", name)
		}
	}
}

// partOf is the name of a part, where it is a constant, and whether the part is run again.
func partOf(part *ast.CompositeLit) (name string, again bool) {
	for _, e := range part.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch value := kv.Value.(type) {
		case *ast.BasicLit:
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Name" {
				name, _ = strconv.Unquote(value.Value)
			}
		case *ast.Ident:
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Again" {
				again = value.Name == "true"
			}
		}
	}
	return name, again
}

// ending is a server that ends at once, in one of the ways in which one may.
type ending func() error

func (f ending) Run(context.Context) error { return f() }

// serving serves until it is to stop.
type serving struct{}

func (serving) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// ways are those in which a part may end too early.
func ways() map[string]func() error {
	return map[string]func() error{
		"panic":   func() error { panic("boom") },
		"error":   func() error { return errors.New("boom") },
		"nothing": func() error { return nil },
	}
}

// lasts reports whether a group goes on for ten minutes, and stops well then.
func lasts(t *testing.T, parts *supervise.Group, meanwhile func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	began := time.Now()
	if meanwhile != nil {
		time.AfterFunc(5*time.Minute, meanwhile)
	}
	if err := parts.Wait(ctx); err != nil || time.Since(began) < 10*time.Minute {
		t.Errorf("the process ended after %s: %v", time.Since(began), err)
	}
}

func TestASocketThatFailsIsShownAndTriedAgain(t *testing.T) {
	for name, end := range ways() {
		for _, opened := range []bool{false, true} {
			if name == "nothing" && !opened {
				continue // opening gives a socket or an error
			}
			t.Run(name+" opened "+strconv.FormatBool(opened), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, parts := newSockets(newKick()), supervise.New(zerolog.Nop())
					var tries atomic.Int32
					s.start(t.Context(), parts, "state socket", func(context.Context) (server, error) {
						switch n := tries.Add(1); {
						case n > 3:
							return serving{}, nil
						case opened:
							return ending(end), nil
						}
						return nil, end()
					})
					if tries.Load() == 0 {
						t.Error("it returned before the first try")
					}
					synctest.Wait()
					if faults := s.unserved(); len(faults) != 1 || !strings.HasPrefix(faults[0], "state socket: ") {
						t.Errorf("shown as %q", faults)
					}
					lasts(t, parts, func() {
						if faults := s.unserved(); len(faults) != 0 || tries.Load() != 4 {
							t.Errorf("after %d tries shown as %q", tries.Load(), faults)
						}
					})
				})
			})
		}
	}
}

// A node that stops while a socket can't be opened stops well.
func TestASocketThatCannotBeOpenedDoesNotSpoilTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, parts := newSockets(newKick()), supervise.New(zerolog.Nop())
		starting, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Second)
			cancel()
		}()
		s.start(starting, parts, "state socket", func(ctx context.Context) (server, error) {
			<-ctx.Done()
			return nil, errors.New("interrupted")
		})
		if err := parts.Stop(); err != nil || len(s.unserved()) != 0 {
			t.Errorf("stopped with %v, shown as %q", err, s.unserved())
		}
	})
}

func TestAServerThatEndsIsOpenedAnew(t *testing.T) {
	for name, end := range ways() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parts, opened := supervise.New(zerolog.Nop()), 0
				parts.Start(supervise.Part{Name: "health", Again: true, Run: reopened[server](ending(end), func(context.Context) (server, error) {
					switch opened++; opened {
					case 1:
						return nil, errors.New("the address is in use")
					case 2:
						return ending(end), nil
					}
					return serving{}, nil
				})})
				lasts(t, parts, nil)
				if opened != 3 {
					t.Errorf("opened anew %d times, want 3", opened)
				}
			})
		})
	}
}

// TestPartsOutlastTheirFaults starts parts as a node does, with faults in what they use.
func TestPartsOutlastTheirFaults(t *testing.T) {
	for name, start := range map[string]func(d *daemon, parts *supervise.Group){
		"changes of no module": func(d *daemon, parts *supervise.Group) {
			parts.Start(changesPart(clients{}, &view{config: d.Config}))
		},
		"changes that panic": func(_ *daemon, parts *supervise.Group) { parts.Start(changesPart(clients{}, nil)) },
		"mirrors that panic": func(_ *daemon, parts *supervise.Group) { parts.Start((&engineParts{}).mirrorsPart()) },
		"settings whose source panics": func(_ *daemon, parts *supervise.Group) {
			hangups := make(chan os.Signal, 1)
			hangups <- os.Interrupt
			s := &settings{read: func() (*config.Loaded, []error) { panic("boom") }, log: zerolog.Nop()}
			parts.Start(s.part(hangups))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, parts := &daemon{Config: Config{Log: zerolog.Nop()}}, supervise.New(zerolog.Nop())
				start(d, parts)
				lasts(t, parts, nil)
			})
		})
	}
}
