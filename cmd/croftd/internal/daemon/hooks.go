package daemon

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	cosi "github.com/cosi-project/runtime/pkg/state"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/hooks"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/supervise"
)

// hookDrain is how long hooks may go on when the node stops.
const hookDrain = 5 * time.Second

// hookSet are the operator's hooks and their runs.
type hookSet struct {
	runner *hooks.Runner
	// chores are croft's own, which run beside the operator's.
	chores []hooks.Hook
	// changed says that there are other hooks to show, ran that there is another run.
	changed, ran kick
	log          zerolog.Logger

	mu      sync.Mutex
	refused []hooks.Refused
	runs    map[string]work.HookRunSpec
}

// openHooks reads the hooks, and makes what runs them.
func openHooks(c Config, events <-chan hooks.Event, chores []hooks.Hook) (*hookSet, error) {
	h := &hookSet{chores: chores, changed: newKick(), ran: newKick(), log: c.Log, runs: map[string]work.HookRunSpec{}}
	var err error
	h.runner, err = hooks.New(hooks.Config{
		RunDir: c.RunDir, Command: []string{"/proc/self/exe", "hook"}, Events: events, Reporter: h, Drain: hookDrain, Log: c.Log,
	})
	return h, err
}

// Report implements hooks.Reporter.
func (h *hookSet) Report(r hooks.Run) {
	s := work.HookRunSpec{Hook: r.Hook, Started: r.Started.UTC(), Ended: r.Ended.UTC(), Exit: r.Exit, Error: r.Err, Output: r.Output}
	if r.Event != nil {
		s.Reason, s.Object = r.Event.Reason, r.Event.ObjectType+"/"+r.Event.ObjectID
	}
	h.mu.Lock()
	h.runs[r.Hook] = s
	h.mu.Unlock()
	h.ran.kick()
}

// load reads the folder, or another one, anew. It logs each refusal once, until it is another one.
func (h *hookSet) load(dir string) error {
	all, refused := hooks.Load(dir)
	h.mu.Lock()
	known := map[string]string{}
	for _, each := range h.refused {
		known[each.File] = each.Err.Error()
	}
	h.refused = refused
	h.mu.Unlock()
	for _, each := range refused {
		if known[each.File] != each.Err.Error() {
			h.log.Warn().Str("file", each.File).Err(each.Err).Msg("a file of hooks is refused")
		}
	}
	h.changed.kick()
	return h.runner.Set(append(all, h.chores...))
}

// lookHooks are the hooks, and the files that aren't used.
func (h *hookSet) lookHooks(context.Context) ([]resource.Resource, error) {
	var out []resource.Resource
	for _, each := range h.runner.State().Hooks {
		out = append(out, work.NewHook(work.HookSpec{Name: each.Name, Queue: each.Queue, Next: each.Next.UTC()}))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, each := range h.refused {
		out = append(out, work.NewHook(work.HookSpec{Name: filepath.Base(each.File), Refused: each.Err.Error()}))
	}
	return out, nil
}

// lookRuns are the last runs of the hooks that there are.
func (h *hookSet) lookRuns(context.Context) ([]resource.Resource, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []resource.Resource
	for _, each := range h.runner.State().Hooks {
		if run, ran := h.runs[each.Name]; ran {
			out = append(out, work.NewHookRun(run))
		}
	}
	return out, nil
}

// start runs the hooks of a folder on their schedules and on the state's events.
func (h *hookSet) start(parts *supervise.Group, s *state, dir string, log zerolog.Logger) {
	if err := h.load(dir); err != nil {
		log.Error().Err(err).Msg("cannot use the hooks")
	}
	parts.Start(supervise.Part{Name: "hooks", Again: true, Run: h.runner.Run, Within: hookDrain + 10*time.Second})
	parts.Start(supervise.Part{Name: "events of hooks", Again: true, Run: func(ctx context.Context) error {
		return tellHooks(ctx, s.State(), s.events)
	}})
}

// tellHooks hands the state's events to the hooks as they come.
func tellHooks(ctx context.Context, s cosi.State, hook chan<- hooks.Event) error {
	watched := make(chan cosi.Event)
	if err := s.WatchKind(ctx, work.NewEvent("", work.EventSpec{}).Metadata(), watched); err != nil {
		return errors.Wrap(err, "cannot watch the events")
	}
	for {
		var e cosi.Event
		select {
		case <-ctx.Done():
			return nil
		case e = <-watched:
		}
		if e.Type == cosi.Errored {
			return errors.Wrap(e.Error, "cannot watch the events any longer")
		}
		one, ok := e.Resource.(*work.Event)
		if !ok || e.Type != cosi.Created && e.Type != cosi.Updated {
			continue
		}
		told := hookEvent(*one.TypedSpec())
		if old, repeated := e.Old.(*work.Event); repeated {
			told.Count = since(told.Count, uint64(old.TypedSpec().Count))
		}
		select {
		case hook <- told:
		case <-ctx.Done():
			return nil
		}
	}
}

// since is how often something happened since it was counted before. A lower count has begun anew.
func since(now, before uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

func hookEvent(s work.EventSpec) hooks.Event {
	kind, id, _ := strings.Cut(s.Object, "/")
	return hooks.Event{
		Time: s.Last, Kind: hooks.Kind(s.Kind), Reason: s.Reason, Operation: s.Operation, ObjectType: kind, ObjectID: id, Message: s.Message, Count: uint64(s.Count),
	}
}
