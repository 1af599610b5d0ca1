package module_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/threefoldtech/zbus"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
)

// patience bounds each wait of these tests.
const patience = 2 * time.Minute

// greeting is what the fake modules serve.
type greeting string

func (g greeting) Greet() (string, error) { return string(g), nil }

// fake is a module whose behaviour a test decides.
type fake struct {
	name string
	mu   sync.Mutex
	// open is called by Open; nil is success at once.
	open func(ctx context.Context, h module.Host) error
	// opened and closed count.
	opened, closed int
	// farm is the setting that it was last opened with.
	farm uint64
}

func (f *fake) descriptor() module.Descriptor {
	return module.Descriptor{Name: f.name, Bus: f.name, Summary: "a fake", Open: func(ctx context.Context, h module.Host) (*module.Instance, error) {
		f.mu.Lock()
		open := f.open
		f.mu.Unlock()
		if open != nil {
			if err := open(ctx, h); err != nil {
				return nil, err
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.opened++
		f.farm = h.Config.FarmID
		return &module.Instance{
			Objects: []module.Object{module.Serves("greeter", "1.0", bus.Methods{"Greet": greeting(f.name).Greet})},
			Close: func(context.Context) error {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.closed++
				return nil
			},
		}, nil
	}}
}

func (f *fake) counts() (opened, closed int, farm uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened, f.closed, f.farm
}

func (f *fake) opens(open func(ctx context.Context, h module.Host) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = open
}

// crowd is a supervisor that runs, with all changes that it told.
type crowd struct {
	*module.Supervisor
	mu      sync.Mutex
	changes []string
	stop    context.CancelFunc
	ended   chan error
}

// Changed implements module.Watcher.
func (c *crowd) Changed(name string, s module.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = append(c.changes, strings.TrimSpace(name+" "+string(s.Phase)+" "+s.Reason))
}

func (c *crowd) of(name string) (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range c.changes {
		if state, is := strings.CutPrefix(text, name+" "); is {
			out = append(out, state)
		}
	}
	return out
}

func gather(t *testing.T, change func(*module.SupervisorConfig), all ...module.Descriptor) *crowd {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	b := bus.NewInProcess()
	t.Cleanup(func() { _ = b.Close() })
	c := &crowd{ended: make(chan error, 1)}
	cfg := module.SupervisorConfig{
		Modules: all, Host: module.Host{Bus: b, Log: zerolog.Nop()}, Watcher: c, Log: zerolog.Nop(), Backoff: backoff.Backoff{Base: 5 * time.Millisecond, Max: 20 * time.Millisecond},
		Facts: func() (module.Facts, error) { return module.Facts{Kernel: "6.1.0"}, nil },
	}
	if change != nil {
		change(&cfg)
	}
	s, err := module.NewSupervisor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.Supervisor = s
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	go func() { c.ended <- s.Run(ctx) }()
	t.Cleanup(func() { c.end(t) })
	return c
}

func (c *crowd) end(t *testing.T) {
	t.Helper()
	c.stop()
	select {
	case err := <-c.ended:
		if err != nil {
			t.Error(err)
		}
		c.ended <- nil
	case <-time.After(patience):
		t.Fatal("it doesn't stop")
	}
}

func (c *crowd) wait(t *testing.T, name string, phase module.Phase) module.State {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s, known := c.State(name)
		if known && s.Phase == phase {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %+v, want %s", name, s, phase)
		}
	}
}

// told is what a module became, once that is so much: a phase is told right after it is so.
func (c *crowd) told(name string, least int) []string {
	for deadline := time.Now().Add(patience); len(c.of(name)) < least && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	return c.of(name)
}

func TestModulesRunAndStopInReverse(t *testing.T) {
	var mu sync.Mutex
	var closed []string
	var all []module.Descriptor
	for _, name := range []string{"first", "second", "third"} {
		f := &fake{name: name}
		d := f.descriptor()
		open := d.Open
		d.Open = func(ctx context.Context, h module.Host) (*module.Instance, error) {
			m, err := open(ctx, h)
			m.Close = func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				closed = append(closed, name)
				return nil
			}
			return m, err
		}
		all = append(all, d)
	}
	c := gather(t, nil, all...)
	for _, d := range all {
		c.wait(t, d.Name, module.Running)
		if got := c.told(d.Name, 2); !slices.Equal(got, []string{"Loading", "Running"}) {
			t.Errorf("%s became %v", d.Name, got)
		}
	}
	c.end(t)
	if !slices.Equal(closed, []string{"third", "second", "first"}) {
		t.Errorf("closed as %v", closed)
	}
	if _, known := c.State("fourth"); known || c.Restart("fourth", config.Config{}) == nil || c.Switch("fourth", true) == nil {
		t.Error("a module that isn't there can be changed")
	}
}

// containerd is away, and comes: the module is opened again and again, the others run.
func TestAModuleThatIsAwayAndComes(t *testing.T) {
	away, other := &fake{name: "away"}, &fake{name: "other"}
	tries := 0
	away.opens(func(context.Context, module.Host) error {
		if tries++; tries < 4 {
			return errors.New("cannot reach containerd")
		}
		return nil
	})
	c := gather(t, nil, away.descriptor(), other.descriptor())
	c.wait(t, "away", module.Running)
	c.wait(t, "other", module.Running)
	want := []string{"Loading", "Failed LoadFailed", "Loading", "Failed LoadFailed", "Loading", "Failed LoadFailed", "Loading", "Running"}
	if got := c.told("away", len(want)); !slices.Equal(got, want) {
		t.Errorf("it became %v", got)
	}
	if opened, closed, _ := other.counts(); opened != 1 || closed != 0 {
		t.Errorf("the other was opened %d times, closed %d times", opened, closed)
	}
}

// A module that hangs while it opens holds up no other, is shown, isn't opened a second time beside that, and runs when it returns.
func TestAModuleThatHangs(t *testing.T) {
	let, begun := make(chan struct{}), make(chan struct{}, 10)
	hangs, other := &fake{name: "hangs"}, &fake{name: "other"}
	hangs.opens(func(context.Context, module.Host) error { begun <- struct{}{}; <-let; return nil })
	c := gather(t, func(cfg *module.SupervisorConfig) { cfg.Patience = 20 * time.Millisecond }, hangs.descriptor(), other.descriptor())
	c.wait(t, "other", module.Running)
	if s := c.wait(t, "hangs", module.Failed); s.Reason != module.ReasonLoadFailed || !strings.Contains(s.Message, "isn't open after 20ms") {
		t.Errorf("%+v", s)
	}
	if err := c.Restart("hangs", config.Config{FarmID: 7}); err != nil {
		t.Fatal(err)
	}
	if len(begun) != 1 {
		t.Errorf("it is opened %d times at once", len(begun))
	}
	close(let)
	c.wait(t, "hangs", module.Running)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if opened, closed, farm := hangs.counts(); opened == 2 && closed == 1 && farm == 7 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("opened %d, closed %d, farm %d: the first wasn't replaced", opened, closed, farm)
		}
	}
}

func TestAModuleThatPanics(t *testing.T) {
	bad, other := &fake{name: "bad"}, &fake{name: "other"}
	bad.opens(func(context.Context, module.Host) error { panic("out of order") })
	c := gather(t, nil, bad.descriptor(), other.descriptor())
	c.wait(t, "other", module.Running)
	if s := c.wait(t, "bad", module.Failed); !strings.Contains(s.Message, "out of order") {
		t.Errorf("%+v", s)
	}
}

// A module without an object ends at once, each time it is opened.
func TestAModuleThatEnds(t *testing.T) {
	d := (&fake{name: "ends"}).descriptor()
	d.Open = func(context.Context, module.Host) (*module.Instance, error) { return &module.Instance{}, nil }
	c := gather(t, nil, d)
	if s := c.wait(t, "ends", module.Failed); s.Reason != module.ReasonEnded || !strings.Contains(s.Message, "no object is registered") {
		t.Errorf("%+v", s)
	}
	for deadline := time.Now().Add(patience); c.Queue().Failures < 5; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it isn't opened again: %+v", c.Queue())
		}
	}
}

func TestOnlyTheRestartedModuleIsTouched(t *testing.T) {
	one, other := &fake{name: "one"}, &fake{name: "other"}
	c := gather(t, nil, one.descriptor(), other.descriptor())
	c.wait(t, "one", module.Running)
	c.wait(t, "other", module.Running)
	for n := 1; n <= 3; n++ {
		if err := c.Restart("one", config.Config{FarmID: uint64(n)}); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			if _, _, farm := one.counts(); farm == uint64(n) {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("it has farm %d, want %d", farm, n)
			}
		}
	}
	c.wait(t, "one", module.Running)
	if opened, closed, farm := other.counts(); opened != 1 || closed != 0 || farm != 0 {
		t.Errorf("the other: opened %d, closed %d, farm %d", opened, closed, farm)
	}
	c.end(t)
	if opened, closed, _ := one.counts(); opened != closed {
		t.Errorf("opened %d times, closed %d times", opened, closed)
	}
}

func TestModulesAreSwitched(t *testing.T) {
	one := &fake{name: "one"}
	c := gather(t, func(cfg *module.SupervisorConfig) { cfg.Off = []string{"one"} }, one.descriptor())
	for n := range 3 {
		if s := c.wait(t, "one", module.Disabled); s.Reason != module.ReasonSwitchedOff {
			t.Errorf("%+v", s)
		}
		if opened, closed, _ := one.counts(); opened != n || closed != n {
			t.Errorf("while it is off: opened %d, closed %d", opened, closed)
		}
		if err := c.Switch("one", true); err != nil {
			t.Fatal(err)
		}
		c.wait(t, "one", module.Running)
		if err := c.Switch("one", false); err != nil {
			t.Fatal(err)
		}
	}
}

// Nothing is made while a constraint isn't met; once it is, the module is opened.
func TestConstraints(t *testing.T) {
	one := &fake{name: "one"}
	d := one.descriptor()
	d.Constraints = func(f module.Facts) []module.Unmet { return f.NeedsKernel(5, 19) }
	var mu sync.Mutex
	kernel := "5.10.0-8-amd64"
	c := gather(t, func(cfg *module.SupervisorConfig) {
		cfg.Facts = func() (module.Facts, error) {
			mu.Lock()
			defer mu.Unlock()
			return module.Facts{Kernel: kernel}, nil
		}
	}, d)
	for deadline := time.Now().Add(patience); c.Queue().Failures < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the constraint isn't looked at again")
		}
	}
	s, _ := c.State("one")
	opened, _, _ := one.counts()
	if s.Phase != module.Pending || s.Reason != module.ReasonConstraintUnmet || !strings.Contains(s.Message, "kernel 5.19 or newer is needed, this is 5.10.0-8-amd64") || opened != 0 {
		t.Errorf("%+v, opened %d times", s, opened)
	}
	if got := c.of("one"); !slices.Equal(got, []string{"Pending ConstraintUnmet"}) {
		t.Errorf("it is told as %v", got)
	}
	mu.Lock()
	kernel = "6.1"
	mu.Unlock()
	c.wait(t, "one", module.Running)
}

// What shows itself only when a module is opened, such as the version of a program, is a constraint as well.
func TestAConstraintThatOpeningShows(t *testing.T) {
	var version atomic.Int64
	one := &fake{name: "one"}
	d := one.descriptor()
	open := d.Open
	d.Open = func(ctx context.Context, h module.Host) (*module.Instance, error) {
		if version.Load() == 0 {
			return nil, fmt.Errorf("cannot open it: %w", module.UnmetError{{What: "containerd 1.6 or newer", Is: "1.4"}})
		}
		return open(ctx, h)
	}
	c := gather(t, nil, d)
	for deadline := time.Now().Add(patience); len(c.of("one")) < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it isn't opened")
		}
	}
	s := c.wait(t, "one", module.Pending)
	if s.Reason != module.ReasonConstraintUnmet || s.Message != "cannot open it: containerd 1.6 or newer is needed, this is 1.4" {
		t.Errorf("%+v", s)
	}
	version.Store(1)
	c.wait(t, "one", module.Running)
}

func TestNeedsKernel(t *testing.T) {
	for release, unmet := range map[string]int{"5.18.19": 1, "4.20": 1, "5.19.0-rc1": 0, "5.20": 0, "6.0": 0, "strange": 0, "": 0} {
		if got := (module.Facts{Kernel: release}).NeedsKernel(5, 19); len(got) != unmet {
			t.Errorf("%q: %v", release, got)
		}
	}
	f, err := module.ReadFacts()
	if err != nil || len(f.NeedsKernel(3, 0)) != 0 || len(f.NeedsKernel(99, 0)) != 1 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestASupervisorNeedsItsParts(t *testing.T) {
	if _, err := module.NewSupervisor(module.SupervisorConfig{}); err == nil {
		t.Error("it is made without modules")
	}
	if _, err := module.NewSupervisor(module.SupervisorConfig{Modules: []module.Descriptor{{Name: fmt.Sprint(1)}}}); err == nil {
		t.Error("it is made without a bus")
	}
}

// TestWhoCallsAModuleThatDoesntRunLearnsWhy: at once, each time, whatever keeps it from running; and it answers itself once it runs.
func TestWhoCallsAModuleThatDoesntRunLearnsWhy(t *testing.T) {
	one := &fake{name: "one"}
	d := one.descriptor()
	d.Objects = []zbus.ObjectID{bus.Object("greeter", "1.0")}
	var b bus.Bus
	away := func(context.Context, module.Host) error { return errors.New("cannot reach containerd") }
	one.opens(away)
	c := gather(t, func(cfg *module.SupervisorConfig) { b = cfg.Host.Bus }, d)
	client := bus.NewClient(b, bus.Options{})
	t.Cleanup(func() { _ = client.Close() })
	greet := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := client.RequestContext(ctx, "one", bus.Object("greeter", "1.0"), "Greet")
		return err
	}
	refused := func(why string) {
		t.Helper()
		if err := greet(); node.KindOf(err) != node.Transient || !strings.Contains(err.Error(), "module one doesn't run") || !strings.Contains(err.Error(), why) {
			t.Errorf("it answers %v, want %q", err, why)
		}
	}
	says := func(want node.ModulePhase) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if is, err := stubs.NewPhaseStub(client, "one").Phase(ctx); err != nil || is != want {
			t.Errorf("it says that it is %+v, %v, want %+v", is, err, want)
		}
	}
	for range 3 {
		c.wait(t, "one", module.Failed)
		refused("it is ")
		one.opens(nil)
		c.wait(t, "one", module.Running)
		if err := greet(); err != nil {
			t.Errorf("it runs: %v", err)
		}
		says(node.ModulePhase{Phase: "Running"})
		if err := c.Switch("one", false); err != nil {
			t.Fatal(err)
		}
		c.wait(t, "one", module.Disabled)
		refused("it is Disabled: it is switched off")
		says(node.ModulePhase{Phase: "Disabled", Reason: module.ReasonSwitchedOff, Message: "it is switched off"})
		one.opens(away)
		if err := c.Switch("one", true); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDescriptorsObjects: a module that doesn't serve what its descriptor says isn't opened.
func TestDescriptorsObjects(t *testing.T) {
	one := &fake{name: "one"}
	d := one.descriptor()
	d.Objects = []zbus.ObjectID{bus.Object("greeter", "2.0")}
	c := gather(t, nil, d)
	if s := c.wait(t, "one", module.Failed); !strings.Contains(s.Message, "its descriptor has") {
		t.Errorf("%+v", s)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if opened, closed, _ := one.counts(); opened > 0 && opened == closed {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("opened %d, closed %d", opened, closed)
		}
	}
}
