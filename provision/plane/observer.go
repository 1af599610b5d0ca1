package plane

import (
	"context"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"github.com/siderolabs/gen/optional"
	"go.uber.org/zap"

	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/resources"
	"github.com/croft-edge/croft/pkg/resources/host"
)

// Observer is a controller that shows what others know: it looks, and makes the resources of one type be what it has
// seen. It looks when an input changes, when Changed says so, and after Every.
type Observer struct {
	// Of is the type that it shows; nobody else writes it.
	Of meta.ResourceWithRD
	// Look returns all resources of the type.
	Look func(ctx context.Context) ([]resource.Resource, error)
	// By are the types whose changes are reasons to look.
	By []meta.ResourceWithRD
	// Module is the module that it asks, on the bus; empty for none. While that doesn't answer it isn't asked, what
	// was seen last stays, and the module is the only input.
	Module string
	// Changed says that there is something to see; nil where nobody says so. Every is the longest time between two
	// looks, a fifth more at most, often less: see backoff.Together; 0 for ever.
	Changed <-chan struct{}
	Every   time.Duration
	// Timeout bounds one look; 0 is five seconds.
	Timeout time.Duration
	Log     zerolog.Logger

	// now are requests for a look; each channel is closed after a look that began later.
	now chan chan struct{}
}

// LookNow has the observer look, and returns once it has, or ctx is done.
func (o *Observer) LookNow(ctx context.Context) {
	looked := make(chan struct{})
	select {
	case o.now <- looked:
	case <-ctx.Done():
		return
	}
	select {
	case <-looked:
	case <-ctx.Done():
	}
}

// The pause after a look is lookShare times as long as the look took, and shortestPause at least: a burst of changes
// costs a bounded share of the processor. Writing what was seen has a bound of its own, see changesPerSecond.
const (
	shortestPause = 100 * time.Millisecond
	longestPause  = 5 * time.Second
	lookShare     = 10
	lookTimeout   = 5 * time.Second
)

// Name implements controller.Controller.
func (o *Observer) Name() string { return plural(o.Of.ResourceDefinition().Type) }

// Inputs implements controller.Controller.
func (o *Observer) Inputs() []controller.Input {
	return o.inputs(false)
}

// inputs are those while the module answers or doesn't.
func (o *Observer) inputs(answers bool) []controller.Input {
	var out []controller.Input
	if o.Module != "" {
		module := weak(&host.Module{})
		module.ID = optional.Some(o.Module)
		out = append(out, module)
	}
	if o.Module == "" || answers {
		for _, each := range o.By {
			out = append(out, weak(each))
		}
	}
	return out
}

// Outputs implements controller.Controller.
func (o *Observer) Outputs() []controller.Output {
	return []controller.Output{{Type: o.Of.ResourceDefinition().Type, Kind: controller.OutputExclusive}}
}

// Run implements controller.Controller.
func (o *Observer) Run(ctx context.Context, r controller.Runtime, _ *zap.Logger) error {
	return guarded(o.Log, "state of "+o.Name(), func() error {
		failed := ""
		var asked []chan struct{}
		for {
			var took time.Duration
			answers, off, err := o.answers(ctx, r)
			switch {
			case err != nil:
			case off:
				err = show(ctx, r, o.Of, nil) // it has nothing any more
			case answers:
				took, err = o.look(ctx, r)
			}
			if ctx.Err() != nil {
				return nil
			}
			failed = o.tell(err, failed)
			for _, looked := range asked {
				close(looked)
			}
			rested := time.Now().Add(min(max(shortestPause, lookShare*took), longestPause))
			var ok bool
			if asked, ok = o.await(ctx, r, rested); !ok {
				return nil
			}
		}
	})
}

// tell logs a failure once.
func (o *Observer) tell(err error, before string) string {
	if err == nil {
		return ""
	}
	if text := err.Error(); text != before {
		o.Log.Warn().Err(err).Str("resources", o.Name()).Str("step", "state").Msg("cannot look: what was seen last is shown")
		return text
	}
	return before
}

// others are the requests that the same look answers.
func (o *Observer) others(first chan struct{}) []chan struct{} {
	asked := []chan struct{}{first}
	for {
		select {
		case looked := <-o.now:
			asked = append(asked, looked)
		default:
			return asked
		}
	}
}

// await waits for a reason to look, and then until rested, but for a request. False when ctx is done.
func (o *Observer) await(ctx context.Context, r controller.Runtime, rested time.Time) (asked []chan struct{}, ok bool) {
	var late <-chan time.Time
	if o.Every > 0 {
		timer := time.NewTimer(backoff.Together(backoff.Around(o.Every)))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-ctx.Done():
		return nil, false
	case looked := <-o.now:
		return o.others(looked), true
	case <-r.EventCh():
	case <-o.Changed:
	case <-late:
	}
	if asked, ok = o.pause(ctx, time.Until(rested)); ok {
		o.taken(r)
	}
	return asked, ok
}

// pause waits for d, or until somebody asks for a look. False when ctx is done.
func (o *Observer) pause(ctx context.Context, d time.Duration) (asked []chan struct{}, ok bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, false
	case looked := <-o.now:
		return o.others(looked), true
	case <-timer.C:
		return nil, true
	}
}

// taken takes the reasons that have come by now: one look is for all of them.
func (o *Observer) taken(r controller.Runtime) {
	select {
	case <-r.EventCh():
	default:
	}
	select {
	case <-o.Changed:
	default:
	}
}

// answers reports whether the module may be asked, and adapts the inputs to that; and whether it is switched off.
func (o *Observer) answers(ctx context.Context, r controller.Runtime) (answers, off bool, err error) {
	if o.Module == "" {
		return true, false, nil
	}
	m, err := safe.ReaderGetByID[*host.Module](ctx, r, o.Module)
	if err != nil {
		return false, false, ignoreMissing(err)
	}
	running, _ := resources.Find(m.TypedSpec().Conditions, host.Running)
	answers = running.Status == resources.True
	return answers, m.TypedSpec().Phase == "Disabled", errors.Wrap(r.UpdateInputs(o.inputs(answers)), "cannot change the inputs")
}

// look shows what there is now.
func (o *Observer) look(ctx context.Context, r controller.Runtime) (took time.Duration, err error) {
	timeout := o.Timeout
	if timeout == 0 {
		timeout = lookTimeout
	}
	looking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	seen, err := o.Look(looking)
	took = time.Since(began)
	if err != nil {
		return took, err
	}
	return took, show(ctx, r, o.Of, seen)
}
