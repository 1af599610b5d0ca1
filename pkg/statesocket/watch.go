package statesocket

import (
	"context"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/supervise"
)

// formed is a state whose watches give each resource as its message in one form of specs: the library's server sends a
// protobuf.Resource as it is, and makes no other form of it.
type formed struct {
	state.CoreState
	message func(resource.Resource) (*v1alpha1.Resource, error)
	log     zerolog.Logger
}

// Watch implements state.CoreState.
func (f formed) Watch(ctx context.Context, of resource.Pointer, out chan<- state.Event, opts ...state.WatchOption) error {
	return f.CoreState.Watch(ctx, of, through(ctx, f.log, out, f.event), opts...)
}

// WatchKind implements state.CoreState.
func (f formed) WatchKind(ctx context.Context, of resource.Kind, out chan<- state.Event, opts ...state.WatchKindOption) error {
	return f.CoreState.WatchKind(ctx, of, through(ctx, f.log, out, f.event), opts...)
}

// WatchKindAggregated implements state.CoreState.
func (f formed) WatchKindAggregated(ctx context.Context, of resource.Kind, out chan<- []state.Event, opts ...state.WatchKindOption) error {
	return f.CoreState.WatchKindAggregated(ctx, of, through(ctx, f.log, out, func(events []state.Event) []state.Event {
		all := make([]state.Event, 0, len(events))
		for _, e := range events {
			all = append(all, f.event(e))
			if all[len(all)-1].Type == state.Errored {
				break // a client that resumes goes on behind the last event that it has got
			}
		}
		return all
	}), opts...)
}

// event is e with the messages of its resources. One of which none can be made ends the watch: it is an event that says so.
func (f formed) event(e state.Event) state.Event {
	err := supervise.Guard(f.log, "state socket watch", func() error {
		for _, r := range []*resource.Resource{&e.Resource, &e.Old} {
			if *r == nil || resource.IsTombstone(*r) {
				continue
			}
			m, err := f.message(*r)
			if err != nil {
				return err
			}
			if *r, err = protobuf.Unmarshal(m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return state.Event{Type: state.Errored, Error: withoutPanic(err)}
	}
	return e
}

// through returns a channel whose values reach out changed, until ctx is done.
func through[T any](ctx context.Context, log zerolog.Logger, out chan<- T, change func(T) T) chan<- T {
	in := make(chan T)
	go supervise.Do(log, "state socket watch", func() {
		for {
			select {
			case v := <-in:
				select {
				case out <- change(v):
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return in
}
