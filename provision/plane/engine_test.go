package plane

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
)

func get(t *testing.T, p *Plane, id string) *work.Workload {
	t.Helper()
	w, err := safe.StateGetByID[*work.Workload](t.Context(), p.State(), id)
	if err != nil && !state.IsNotFoundError(err) {
		t.Fatal(err)
	}
	return w
}

// TestWorkloadsLife: a workload's resource has the engine as its owner, its users as finalizers and what it is
// selected by as labels; it is torn down from when it leaves, and back when it is wanted again.
func TestWorkloadsLife(t *testing.T) {
	p := open(t, Config{})
	engine := newEngine()
	p.Add(engine)
	run(t, p)
	volume := work.WorkloadSpec{
		ID: "1-1", Type: workload.TypeVolume, User: userID, Phase: "deployed", Pool: "ssd0", Users: []string{"container/5-1", "container/6-1"},
		Conditions: []resources.Condition{resources.Is(work.Provisioned, "Deployed", "")},
	}
	engine.Workloads([]work.WorkloadSpec{volume}, nil)
	until(t, "it is shown", func() bool { return get(t, p, "1-1") != nil })
	is := get(t, p, "1-1")
	md := is.Metadata()
	if md.Owner() != "Engine" || !slices.Equal(*md.Finalizers(), volume.Users) || md.Phase() != resource.PhaseRunning {
		t.Errorf("owner %q, finalizers %v, phase %s", md.Owner(), *md.Finalizers(), md.Phase())
	}
	for label, want := range map[string]string{resources.LabelUser: userID, resources.LabelType: "volume", resources.LabelPool: "ssd0"} {
		if got, _ := md.Labels().Get(label); got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	version := md.Version()
	volume.Phase, volume.Users = "leaving", []string{"container/6-1"}
	engine.Workloads([]work.WorkloadSpec{volume}, nil)
	until(t, "it is torn down", func() bool { return get(t, p, "1-1").Metadata().Phase() == resource.PhaseTearingDown })
	if md := get(t, p, "1-1").Metadata(); md.Version().Value() <= version.Value() || !slices.Equal(*md.Finalizers(), volume.Users) {
		t.Errorf("version %s after %s, finalizers %v", md.Version(), version, *md.Finalizers())
	}
	volume.Phase = "deployed"
	engine.Workloads([]work.WorkloadSpec{volume}, nil)
	until(t, "it is wanted again", func() bool {
		w := get(t, p, "1-1")
		return w != nil && w.Metadata().Phase() == resource.PhaseRunning && w.TypedSpec().Phase == "deployed"
	})
	engine.Workloads(nil, []string{"1-1", "9-9"})
	until(t, "it is forgotten, whoever uses it", func() bool { return get(t, p, "1-1") == nil })
}

// TestABusyEngineIsShownInSteps: the newest of what the engine does is shown, and not each of its steps: however fast they follow each other, what
// is written in a time is bounded.
func TestABusyEngineIsShownInSteps(t *testing.T) {
	p := open(t, Config{})
	engine := newEngine()
	p.Add(engine)
	run(t, p)
	began, steps := time.Now(), 0
	for time.Since(began) < 500*time.Millisecond {
		for range 10 {
			steps++
			engine.Workloads([]work.WorkloadSpec{{ID: "1-1", Type: workload.TypeVolume, User: userID, Phase: "retry", Attempts: steps}}, nil)
		}
		time.Sleep(time.Millisecond)
	}
	until(t, "the last step is shown", func() bool {
		w := get(t, p, "1-1")
		return w != nil && w.TypedSpec().Attempts == steps
	})
	if written, most := get(t, p, "1-1").Metadata().Version().Value(), uint64(time.Since(began)/(20*time.Millisecond))+2; written > most {
		t.Errorf("%d steps were written %d times in %s, must be at most %d", steps, written, time.Since(began), most)
	}
}

// TestThePauseEnds: what changes for a module that workloads need, and an input, isn't held up by what is gathered.
func TestThePauseEnds(t *testing.T) {
	engine := NewEngine(EngineConfig{Orders: refusing{}, ClockChanged: func() {}, Log: zerolog.Nop(), Needs: map[workload.Type][]string{
		workload.TypeVolume: {"storage"}, workload.TypeZDB: {"storage"}, workload.TypeNetwork: {"network"},
	}})
	hand := func(id string, of workload.Type) {
		engine.Workloads([]work.WorkloadSpec{{ID: id, Type: of, User: userID, Phase: "deployed"}}, nil)
	}
	hand("1-1", workload.TypeVolume)
	<-engine.present.changed
	inputs := make(chan controller.ReconcileEvent, 1)
	rests := func(pause time.Duration) (ended chan struct{}) {
		ended = make(chan struct{})
		go func() {
			defer close(ended)
			engine.rest(t.Context(), pause, inputs)
		}()
		return ended
	}
	ended := rests(time.Hour)
	for i := range 50 {
		hand(fmt.Sprintf("2-%d", i), workload.TypeVolume)
	}
	select {
	case <-ended:
		t.Error("it ended with further workloads of the same type")
	case <-time.After(50 * time.Millisecond):
	}
	hand("3-1", workload.TypeNetwork)
	<-ended
	if needed := engine.needed(); !maps.Equal(needed, map[string]bool{"storage": true, "network": true}) {
		t.Errorf("needed are %v", needed)
	}
	ended = rests(time.Hour)
	engine.Workloads(nil, []string{"3-1"})
	<-ended
	ended = rests(time.Hour)
	inputs <- controller.ReconcileEvent{}
	<-ended
	<-rests(time.Millisecond)
}

// TestPresentCounts generates workloads that come, change their type and go, and holds that the types are theirs.
func TestPresentCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, is := newPresent(), map[string]workload.Type{}
		ids, types := rapid.SampledFrom([]string{"1-1", "2-1", "3-1"}), rapid.SampledFrom([]workload.Type{workload.TypeVolume, workload.TypeZDB})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				id, of := ids.Draw(t, "id"), types.Draw(t, "type")
				p.add(id, of)
				is[id] = of
			},
			"remove": func(t *rapid.T) {
				id := ids.Draw(t, "id")
				p.remove(id)
				delete(is, id)
			},
			"": func(t *rapid.T) {
				want := map[workload.Type]int{}
				for _, of := range is {
					want[of]++
				}
				if !maps.Equal(p.count, want) {
					t.Fatalf("counted are %v, there are %v", p.count, want)
				}
			},
		})
	})
}

// TestShownTombstonesAreBounded: the oldest go first, whatever the order in which they are handed over, refused ones of free keys push out no others, and
// no live workload goes.
func TestShownTombstonesAreBounded(t *testing.T) {
	p := open(t, Config{})
	engine := newEngine()
	p.Add(engine)
	run(t, p)
	engine.Workloads([]work.WorkloadSpec{{ID: "0-1", Phase: "deployed"}}, nil)
	began := time.Unix(1, 0)
	var all []work.WorkloadSpec
	for i := range mostEnded + 50 {
		all = append(all, work.WorkloadSpec{ID: fmt.Sprintf("%d-1", i+1), Phase: "ended", ResultAt: began.Add(time.Duration(i) * time.Second)})
	}
	for i := range 2 * mostRefused {
		all = append(all, work.WorkloadSpec{ID: fmt.Sprintf("%d-2", i+1), Phase: "refused", ResultAt: began.Add(time.Duration(i) * time.Hour)})
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	engine.Workloads(all[:700], nil)
	until(t, "the first are shown", func() bool {
		some, err := safe.StateListAll[*work.Workload](t.Context(), p.State())
		return err == nil && some.Len() > 500
	})
	engine.Workloads(all[700:], nil)
	until(t, "the newest are shown, and the live one", func() bool {
		shown, err := safe.StateListAll[*work.Workload](t.Context(), p.State())
		if err != nil || shown.Len() != mostEnded+mostRefused+1 || get(t, p, "0-1") == nil {
			return false
		}
		for w := range shown.All() {
			at := w.TypedSpec().ResultAt
			if w.TypedSpec().Phase == "ended" && at.Before(began.Add(50*time.Second)) ||
				w.TypedSpec().Phase == "refused" && at.Before(began.Add(mostRefused*time.Hour)) {
				t.Fatalf("%s of %s is shown", w.Metadata().ID(), at)
			}
		}
		return true
	})
}

// operator carries orders out as the test says.
type operator struct {
	mu      sync.Mutex
	results map[string]error
	// holding are the targets whose orders last until they are cancelled.
	holding map[string]bool
	begun   []string
	ended   []string
}

func (o *operator) CarryOut(ctx context.Context, order work.OrderSpec) (string, error) {
	o.mu.Lock()
	o.begun = append(o.begun, order.Target)
	hold := o.holding[order.Target]
	result := o.results[order.Target]
	o.mu.Unlock()
	if hold {
		<-ctx.Done()
		result = ctx.Err()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = append(o.ended, order.Target)
	return "it is " + order.Target, result
}

func (o *operator) has(list *[]string, target string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(*list, target)
}

// desk runs a plane with an operator.
func desk(t *testing.T, o *operator) *Plane {
	t.Helper()
	p := open(t, Config{})
	p.Add(NewEngine(EngineConfig{Orders: o, ClockChanged: func() {}, Log: zerolog.Nop()}))
	p.AddQueued(OrderCleaner())
	run(t, p)
	return p
}

func give(t *testing.T, p *Plane, id string) {
	t.Helper()
	if err := p.State().Create(t.Context(), work.NewOrder(id, work.OrderSpec{Kind: work.Evict, Target: id})); err != nil {
		t.Fatal(err)
	}
}

func order(t *testing.T, p *Plane, id string) *work.Order {
	t.Helper()
	o, err := safe.StateGetByID[*work.Order](t.Context(), p.State(), id)
	if err != nil && !state.IsNotFoundError(err) {
		t.Fatal(err)
	}
	return o
}

// TestOrdersOutliveTheirClient: an order is carried out once, its result stays until its client takes it, and a
// failure has its kind.
func TestOrdersOutliveTheirClient(t *testing.T) {
	o := &operator{results: map[string]error{"2-1": node.Errorf(node.NotExist, "cannot evict 2-1: there is none")}}
	p := desk(t, o)
	give(t, p, "1-1")
	give(t, p, "2-1")
	until(t, "both have their state", func() bool {
		return order(t, p, "1-1").TypedSpec().State != "" && order(t, p, "2-1").TypedSpec().State != ""
	})
	if s := order(t, p, "1-1").TypedSpec(); s.State != work.OrderDone || s.At.IsZero() || s.Error != "" {
		t.Errorf("%+v", s)
	}
	if s := order(t, p, "2-1").TypedSpec(); s.State != work.OrderFailed || s.ErrorKind != node.NotExist || !strings.Contains(s.Error, "there is none") {
		t.Errorf("%+v", s)
	}
	if _, err := p.State().Teardown(t.Context(), order(t, p, "1-1").Metadata()); err != nil {
		t.Fatal(err)
	}
	until(t, "the fetched one is gone", func() bool { return order(t, p, "1-1") == nil })
	if order(t, p, "2-1") == nil || len(o.begun) != 2 {
		t.Errorf("carried out: %v", o.begun)
	}
}

// TestAWithdrawnOrder is cancelled before its resource goes; one that hasn't begun never begins.
func TestAWithdrawnOrder(t *testing.T) {
	o := &operator{holding: map[string]bool{}}
	for i := range mostOrders {
		o.holding[fmt.Sprintf("%d-1", i)] = true
	}
	p := desk(t, o)
	for i := range mostOrders + 1 {
		id := fmt.Sprintf("%d-1", i)
		give(t, p, id)
		if i < mostOrders {
			until(t, "it has begun", func() bool { return o.has(&o.begun, id) })
		}
	}
	last := fmt.Sprintf("%d-1", mostOrders)
	for _, id := range []string{last, "0-1"} {
		if _, err := p.State().Teardown(t.Context(), order(t, p, id).Metadata()); err != nil {
			t.Fatal(err)
		}
		until(t, id+" is gone", func() bool { return order(t, p, id) == nil })
	}
	if !o.has(&o.ended, "0-1") || o.has(&o.begun, last) {
		t.Errorf("begun %v, ended %v", o.begun, o.ended)
	}
	give(t, p, "77-1")
	until(t, "there is room for another one", func() bool { return order(t, p, "77-1").TypedSpec().State == work.OrderDone })
}

func TestCheckOrder(t *testing.T) {
	for name, c := range map[string]struct {
		spec work.OrderSpec
		says string
	}{
		"evict":               {work.OrderSpec{Kind: work.Evict, Target: "007-1"}, ""},
		"restored":            {work.OrderSpec{Kind: work.Restored}, ""},
		"nothing":             {work.OrderSpec{}, `kind is "", must be evict, accept-older, refuse-older, restored, replace-mirror, reload or look`},
		"unknown":             {work.OrderSpec{Kind: "format"}, `kind is "format"`},
		"evict nothing":       {work.OrderSpec{Kind: work.Evict}, `target is ""`},
		"evict a path":        {work.OrderSpec{Kind: work.Evict, Target: "../../etc"}, "must be N-M"},
		"restored of what":    {work.OrderSpec{Kind: work.Restored, Target: "1-1"}, "must be empty"},
		"done already":        {work.OrderSpec{Kind: work.Restored, State: work.OrderDone}, "the node writes them"},
		"with a made-up time": {work.OrderSpec{Kind: work.Restored, At: time.Now()}, "the node writes them"},
	} {
		o := work.NewOrder("1", c.spec)
		err := CheckOrder(o)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
		if name == "evict" && o.TypedSpec().Target != "7-1" {
			t.Errorf("the target is %q", o.TypedSpec().Target)
		}
	}
}

// TestAResultGoesAfterAWhile, also where nothing else happens on the node.
func TestAResultGoesAfterAWhile(t *testing.T) {
	p := open(t, Config{})
	engine := NewEngine(EngineConfig{Orders: &operator{}, ClockChanged: func() {}, Log: zerolog.Nop()})
	engine.orders.results = 2 * time.Second
	p.Add(engine)
	p.AddQueued(OrderCleaner())
	run(t, p)
	give(t, p, "1-1")
	until(t, "it is done", func() bool { return order(t, p, "1-1").TypedSpec().State == work.OrderDone })
	until(t, "its result is gone", func() bool { return order(t, p, "1-1") == nil })
}

// TestTheTableOfOrders of the documentation has all kinds that the node knows, and no other.
func TestTheTableOfOrders(t *testing.T) {
	text, err := os.ReadFile("../../docs/state.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| kind | what the node does |")
	table, _, _ = strings.Cut(table, "\n\n")
	documented := map[string]bool{}
	for _, row := range strings.Split(table, "\n") {
		for i, kind := range strings.Split(strings.Split(row+"||", "|")[1], "`") {
			if i%2 == 1 {
				documented[kind] = true
			}
		}
	}
	err = CheckOrder(work.NewOrder("1", work.OrderSpec{}))
	if err == nil {
		t.Fatal("an order of no kind is allowed")
	}
	_, allowed, _ := strings.Cut(err.Error(), "must be ")
	for _, kind := range strings.Split(strings.ReplaceAll(allowed, " or ", ", "), ", ") {
		if !documented[kind] {
			t.Errorf("docs/state.md doesn't have %q", kind)
		}
		delete(documented, kind)
	}
	if len(documented) > 0 {
		t.Errorf("docs/state.md has %v", documented)
	}
}

// TestClockIsAnInput: a change of the trust in the time wakes the engine; no other change of the clock does.
func TestClockIsAnInput(t *testing.T) {
	p := open(t, Config{})
	changed := make(chan struct{}, 10)
	p.Add(NewEngine(EngineConfig{Orders: refusing{}, ClockChanged: func() { changed <- struct{}{} }, Log: zerolog.Nop()}))
	clocks := make(chan host.ClockSpec, 1)
	looked := make(chan struct{}, 1)
	var shown host.ClockSpec
	p.Add(&Observer{Of: &host.Clock{}, Changed: looked, Log: zerolog.Nop(), Look: func(context.Context) ([]resource.Resource, error) {
		select {
		case shown = <-clocks:
		default:
		}
		return []resource.Resource{host.NewClock(shown)}, nil
	}})
	run(t, p)
	for i, level := range []string{"stop", "none", "remove"} {
		clocks <- host.ClockSpec{Level: level, Why: fmt.Sprint(i)}
		looked <- struct{}{}
		select {
		case <-changed:
		case <-time.After(soon):
			t.Fatalf("the engine doesn't hear that the level is %s", level)
		}
	}
}

// TestAnOrderIsCarriedOutOnce: also when the controller is started again before it could write the order's result.
func TestAnOrderIsCarriedOutOnce(t *testing.T) {
	o := &operator{holding: map[string]bool{"1-1": true}}
	p := open(t, Config{})
	trust := make(chan host.ClockSpec, 1)
	panicked := make(chan struct{})
	var once sync.Once
	p.Add(NewEngine(EngineConfig{Orders: o, Log: zerolog.Nop(), ClockChanged: func() {
		once.Do(func() {
			close(panicked)
			panic("for the test")
		})
	}}), &Observer{Of: &host.Clock{}, Log: zerolog.Nop(), Every: time.Millisecond, Look: func(context.Context) ([]resource.Resource, error) {
		select {
		case is := <-trust:
			trust <- is
			return []resource.Resource{host.NewClock(is)}, nil
		default:
			return nil, nil
		}
	}})
	run(t, p)
	give(t, p, "1-1")
	until(t, "it is begun", func() bool { return o.has(&o.begun, "1-1") })
	trust <- host.ClockSpec{Level: "stop"}
	<-panicked
	until(t, "it is answered", func() bool { return order(t, p, "1-1").TypedSpec().State != "" })
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := order(t, p, "1-1").TypedSpec(); len(o.begun) != 1 || s.State != work.OrderFailed {
		t.Errorf("it was begun %d times, and is %+v", len(o.begun), s)
	}
}
