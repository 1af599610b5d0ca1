package provision_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// hanging is a provisioner that hangs for the first reservation, and does the others at once.
type hanging struct {
	fakeProvisioner
	slots int
	// fetch and provision hang, nil for neither.
	fetch, provision func(ctx context.Context) error
	begun            chan struct{}
}

// hangingFirst is the ID of the reservation for which a hanging one hangs.
const hangingFirst = "1-1"

func newHanging(slots int) *hanging {
	h := &hanging{slots: slots, begun: make(chan struct{}, 1)}
	h.answer = func(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
		return nil, h.hang(ctx, r.ID, h.provision)
	}
	return h
}

func (h *hanging) hang(ctx context.Context, id string, how func(ctx context.Context) error) error {
	if how == nil || id != hangingFirst {
		return nil
	}
	select {
	case h.begun <- struct{}{}:
	default:
	}
	return how(ctx)
}

// Slots implements provisioner.Parallel.
func (h *hanging) Slots() int { return h.slots }

// Prepare implements provisioner.Preparer.
func (h *hanging) Prepare(ctx context.Context, r *workload.Reservation) (provisioner.Progress, error) {
	err := h.hang(ctx, r.ID, h.fetch)
	return provisioner.Progress{Ready: err == nil}, err
}

// untilCancelled hangs as long as it may.
func untilCancelled(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// withHanging runs a node whose containers are those of h.
func withHanging(t *testing.T, h func() *hanging, body func(t *testing.T, w *world, h *hanging)) {
	t.Helper()
	var containers *hanging
	inWorld(t, func(w *world) {
		containers = h()
		w.limits.Provision = time.Minute
		w.provisioners = map[workload.Type]provisioner.Provisioner{workload.TypeContainer: containers}
	}, func(t *testing.T, w *world, _ *incarnation) { body(t, w, containers) })
}

// within fails unless the explorer takes a signed result of that state within a limit after a moment.
func (w *world) within(limit time.Duration, began time.Time, id string, state workload.State) {
	w.t.Helper()
	if w.answered(id, state); time.Since(began) > limit {
		w.t.Errorf("%s is %s after %s, must be within %s", id, state, time.Since(began), limit)
	}
}

// TestDeletionOfWhatHangs: a fetch or a provision that ends when it is told to delays its deletion by no more than two
// seconds, and the same content reserved again by nothing, whether its type has one slot or several.
func TestDeletionOfWhatHangs(t *testing.T) {
	for name, set := range map[string]func(h *hanging){
		"fetch":     func(h *hanging) { h.fetch = untilCancelled },
		"provision": func(h *hanging) { h.provision = untilCancelled },
	} {
		for _, slots := range []int{1, 4} {
			t.Run(fmt.Sprint(name, " with slots: ", slots), func(t *testing.T) {
				withHanging(t, func() *hanging {
					h := newHanging(slots)
					set(h)
					return h
				}, func(t *testing.T, w *world, h *hanging) {
					old := w.container()
					<-h.begun
					time.Sleep(time.Second)
					began := time.Now()
					w.remove(old)
					again := w.container()
					w.within(2*time.Second, began, again, workload.StateOK)
					w.within(2*time.Second, began, old, workload.StateDeleted)
					if calls := h.calls(); !slices.Contains(calls, "decommission "+old) || slices.Contains(calls, "decommission "+again) {
						t.Errorf("called are %q", calls)
					}
					if all := w.explorer.all(old); len(all) != 1 {
						t.Errorf("its results are %+v", all)
					}
				})
			})
		}
	}
}

// TestDeletionOfWhatIgnoresItsEnd: a provision that doesn't return when it is cancelled may still make something, which only
// its module knows. So the deletion's answer waits until it has returned, past its deadline too, and is the truth then. The
// same content reserved again takes another slot and is there at once.
func TestDeletionOfWhatIgnoresItsEnd(t *testing.T) {
	var release chan struct{}
	withHanging(t, func() *hanging {
		release = make(chan struct{})
		until := release
		h := newHanging(4)
		h.provision = func(context.Context) error {
			<-until
			return nil // it is made
		}
		return h
	}, func(t *testing.T, w *world, h *hanging) {
		old := w.container()
		<-h.begun
		w.remove(old)
		again := w.container()
		w.within(2*time.Second, time.Now(), again, workload.StateOK)
		time.Sleep(5 * time.Minute) // its deadline is one
		if r := w.explorer.result(old); r != nil && r.State == workload.StateDeleted || slices.Contains(h.calls(), "decommission "+old) {
			t.Fatalf("it is %+v while it may still be made: %q", r, h.calls())
		}
		close(release)
		w.within(w.limits.Retry.Max, time.Now(), old, workload.StateDeleted)
		if have, err := h.List(t.Context()); err != nil || !slices.Equal(have, []string{again}) {
			t.Errorf("on the node are %q, %v", have, err)
		}
	})
}
