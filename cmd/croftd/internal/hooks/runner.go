package hooks

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/supervise"
	"github.com/croft-edge/croft/pkg/workqueue"
)

// Config holds the parts and settings of a Runner.
type Config struct {
	// RunDir is the node's, for the name of the hooks' control group.
	RunDir string
	// Command starts this program so that it calls Exec.
	Command []string
	// Events are the node's; nil for none. They are always taken at once.
	Events   <-chan Event
	Reporter Reporter
	// Drain is how long hooks that are due or run may take when the node stops; then they are killed. 0 kills
	// them at once.
	Drain time.Duration
	Log   zerolog.Logger
}

// Validate names the missing fields.
func (c Config) Validate() error {
	switch {
	case c.RunDir == "" || len(c.Command) == 0:
		return errors.New("cannot run hooks: RunDir and Command must be set")
	case c.Reporter == nil:
		return errors.New("cannot run hooks: Reporter is nil, it must be set")
	case c.Drain < 0:
		return errors.Errorf("cannot run hooks: Drain is %s, it must not be negative", c.Drain)
	}
	return nil
}

// mostWaiting bounds the runs that wait in one queue.
const mostWaiting = 256

// Key is a run that waits: of a hook, for an object. Events of one object are one run.
type Key struct {
	Hook       string `json:"hook"`
	ObjectType string `json:"object_type,omitempty"`
	ObjectID   string `json:"object_id,omitempty"`
}

// Runner runs hooks. It is safe for concurrent use.
type Runner struct {
	cfg      Config
	programs *programs
	changed  chan struct{}

	mu    sync.Mutex
	hooks map[string]Hook
	// due are the next runs by schedules, in Unix nanoseconds.
	due    *workqueue.Schedule[string]
	queues map[string]*lane
	// events are the newest events of the runs that wait, with how often they happened.
	events  map[Key]Event
	last    map[string]Run
	dropped uint64
	// running is the context of the queues while Run runs.
	running context.Context
	lanes   sync.WaitGroup
}

// lane is one queue.
type lane struct {
	*workqueue.Queue[Key]
	stop context.CancelFunc
}

// New makes a runner without hooks.
func New(c Config) (*Runner, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Runner{
		cfg: c, programs: newPrograms(c), changed: make(chan struct{}, 1),
		hooks: map[string]Hook{}, due: workqueue.NewSchedule[string](nil), queues: map[string]*lane{}, events: map[Key]Event{}, last: map[string]Run{},
	}, nil
}

// Set replaces the hooks. What waits of those that are gone is dropped; what runs goes on to its end. A hook whose schedule is
// the same stays due when it was.
func (r *Runner) Set(hooks []Hook) error {
	next := map[string]Hook{}
	for _, h := range hooks {
		if _, twice := next[h.Name]; twice || h.Name == "" || h.Queue == "" || h.Timeout <= 0 || (len(h.Argv) > 0) == (h.Do != nil) {
			return errors.Errorf("cannot use hook %q: it must have a name of its own, a queue, a timeout above 0, and either a program or a chore", h.Name)
		}
		next[h.Name] = h
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due.DropUnless(func(hook string) bool { return same(r.hooks[hook].Schedule, next[hook].Schedule) })
	r.hooks = next
	now := time.Now()
	for _, h := range next {
		if _, planned := r.due.At(h.Name); !planned {
			r.plan(h, now)
		}
	}
	gone := func(hook string) bool { return next[hook].Name == "" }
	maps.DeleteFunc(r.events, func(k Key, _ Event) bool { return gone(k.Hook) })
	maps.DeleteFunc(r.last, func(hook string, _ Run) bool { return gone(hook) })
	r.openLanes()
	select {
	case r.changed <- struct{}{}:
	default:
	}
	return nil
}

// planAll sets the next run of each hook with a schedule.
func (r *Runner) planAll(now time.Time) {
	for _, h := range r.hooks {
		r.plan(h, now)
	}
}

func (r *Runner) plan(h Hook, now time.Time) {
	if h.Schedule == nil {
		return
	}
	if next := h.Schedule.Next(now); !next.IsZero() {
		r.due.Set(h.Name, 0, next.UnixNano())
	}
}

// openLanes opens the missing queues while Run runs.
func (r *Runner) openLanes() {
	if r.running == nil || r.running.Err() != nil {
		return
	}
	for _, h := range r.hooks {
		if r.queues[h.Queue] != nil {
			continue
		}
		if err := r.openLane(h.Queue); err != nil {
			r.cfg.Log.Error().Err(err).Str("hook", h.Name).Msg("cannot run a hook")
		}
	}
	r.closeLanes()
}

// closeLanes ends the queues that no hook has, once they are idle: what runs there goes on to its end, and a queue that comes
// back meanwhile is the same one.
func (r *Runner) closeLanes() {
	wanted := map[string]bool{}
	for _, h := range r.hooks {
		wanted[h.Queue] = true
	}
	for name, l := range r.queues {
		if wanted[name] {
			continue
		}
		if is := l.State(); is.Waiting+is.Running == 0 {
			l.stop()
			delete(r.queues, name)
		}
	}
}

func (r *Runner) openLane(name string) error {
	q, err := workqueue.New(workqueue.Config[Key]{
		Name: "hooks " + name, Handle: func(ctx context.Context, k Key) error { return r.handle(ctx, name, k) },
		Valid: r.valid, Most: mostWaiting, Drain: r.cfg.Drain, Log: r.cfg.Log,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(r.running)
	r.lanes.Go(func() {
		if err := supervise.Guard(r.cfg.Log, "hooks "+name, func() error { return q.Run(ctx) }); err != nil {
			r.cfg.Log.Error().Err(err).Msg("a queue of hooks doesn't stop")
		}
	})
	r.queues[name] = &lane{Queue: q, stop: stop}
	return nil
}

// mostSleep bounds the sleep between two looks at the clock, which may be set.
const mostSleep = time.Minute

// Run runs hooks until ctx is done. Then it starts none, and returns once the queues are drained or killed.
func (r *Runner) Run(ctx context.Context) error {
	r.programs.open(ctx)
	defer r.programs.close()
	queues, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer r.drain(stop)
	r.mu.Lock()
	r.running = queues
	r.openLanes()
	r.mu.Unlock()
	r.listen(ctx)
	return nil
}

// drain stops the queues and waits for them.
func (r *Runner) drain(stop context.CancelFunc) {
	r.mu.Lock()
	stop()
	r.mu.Unlock()
	r.lanes.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queues = map[string]*lane{}
}

// listen starts hooks by schedule and by events until ctx is done.
func (r *Runner) listen(ctx context.Context) {
	events := r.cfg.Events
	before := time.Now()
	for {
		now := time.Now()
		timer := time.NewTimer(r.look(now, now.Round(0).Sub(before.Round(0))-now.Sub(before)))
		before = now
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-r.changed:
		case e, open := <-events:
			if open {
				r.hear(e)
			} else {
				events = nil
			}
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// leastSet is the least step of a clock that counts as a clock that was set.
const leastSet = 2 * time.Second

// look starts the hooks that are due, and returns how long to sleep. set is by how much the clock was set since the look
// before: then all schedules are planned anew, so that nothing is made up for or waited for too long.
func (r *Runner) look(now time.Time, set time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeLanes()
	if set.Abs() > leastSet {
		r.planAll(now)
	}
	for _, name := range r.due.Take(now.UnixNano()) {
		h := r.hooks[name]
		r.add(h, Key{Hook: name})
		r.plan(h, now)
	}
	at, some := r.due.Next()
	if !some {
		return mostSleep
	}
	return min(max(time.Duration(at-now.UnixNano()), 0), mostSleep)
}

// hear starts the hooks of an event.
func (r *Runner) hear(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.hooks {
		if !Matches(h, e) {
			continue
		}
		k := Key{Hook: h.Name, ObjectType: e.ObjectType, ObjectID: e.ObjectID}
		merged := e
		merged.Count = max(e.Count, 1)
		if waiting, is := r.events[k]; is {
			merged.Count += waiting.Count
		}
		if r.add(h, k) {
			r.events[k] = merged
		}
	}
}

func (r *Runner) add(h Hook, k Key) bool {
	q := r.queues[h.Queue]
	if q == nil || !q.Add(k) {
		r.dropped++
		return false
	}
	return true
}

// valid reports whether the hook of a run is still there.
func (r *Runner) valid(k Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hooks[k.Hook].Name != ""
}

// errTimeout ends a hook after its timeout, errStop when the node stops.
var (
	errTimeout = errors.New("it was killed after its timeout, with all that it started")
	errStop    = errors.New("it was killed because the node stops, with all that it started")
)

// handle runs a hook of a queue. A failure isn't repeated: the schedule or the next event does that. What waited here of a hook
// that has another queue now goes there.
func (r *Runner) handle(ctx context.Context, queue string, k Key) error {
	r.mu.Lock()
	h, there := r.hooks[k.Hook]
	if there && h.Queue != queue {
		// Its event may have gone there already, with one that came since.
		if _, waits := r.events[k]; (waits || k == Key{Hook: k.Hook}) && !r.add(h, k) {
			delete(r.events, k)
		}
		r.mu.Unlock()
		return nil
	}
	e, byEvent := r.events[k]
	delete(r.events, k)
	r.mu.Unlock()
	if !there {
		return nil
	}
	run := Run{Hook: h.Name, Started: time.Now(), Exit: -1}
	if byEvent {
		run.Event = &e
	}
	stopping, end := context.WithCancelCause(context.Background())
	defer end(nil)
	defer context.AfterFunc(ctx, func() { end(errStop) })()
	limited, cancel := context.WithTimeoutCause(stopping, h.Timeout, errTimeout)
	defer cancel()
	err := supervise.Guard(r.cfg.Log, "hook "+h.Name, func() (err error) {
		if h.Do != nil {
			run.Exit = 0
			return h.Do(limited)
		}
		run.Exit, run.Output, err = r.programs.run(limited, h, run.Event)
		return err
	})
	run.Ended = time.Now()
	if err != nil {
		run.Err = clip.Text(err.Error(), mostValue)
	}
	r.mu.Lock()
	if r.hooks[h.Name].Name != "" {
		r.last[h.Name] = run
	}
	r.mu.Unlock()
	supervise.Do(r.cfg.Log, "report of hook "+h.Name, func() { r.cfg.Reporter.Report(run) })
	return nil
}

// State is what a runner holds, for dumps.
type State struct {
	Hooks  []HookState            `json:"hooks"`
	Queues []workqueue.State[Key] `json:"queues"`
	// Dropped counts runs that weren't started because their queue was full.
	Dropped uint64 `json:"dropped"`
}

// HookState is a hook, the next time of its schedule, and its last run.
type HookState struct {
	Name  string    `json:"name"`
	Queue string    `json:"queue"`
	Next  time.Time `json:"next,omitzero"`
	Last  *Run      `json:"last,omitempty"`
}

// State returns what the runner holds.
func (r *Runner) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeLanes()
	out := State{Hooks: []HookState{}, Queues: []workqueue.State[Key]{}, Dropped: r.dropped}
	for _, name := range slices.Sorted(maps.Keys(r.hooks)) {
		h := HookState{Name: name, Queue: r.hooks[name].Queue}
		if at, some := r.due.At(name); some {
			h.Next = time.Unix(0, at)
		}
		if last, ran := r.last[name]; ran {
			h.Last = &last
		}
		out.Hooks = append(out.Hooks, h)
	}
	for _, name := range slices.Sorted(maps.Keys(r.queues)) {
		out.Queues = append(out.Queues, r.queues[name].State())
	}
	return out
}
