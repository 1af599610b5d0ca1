package provision_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// watchedProvisioner is a fake whose workloads can be changed under the node.
type watchedProvisioner struct {
	fakeProvisioner
	// drift is what differs, by ID; sticky stays whatever is done about it.
	drift  map[string]string
	sticky bool
	// down makes a look fail, or hang where hang is set.
	down error
	hang bool
}

func (w *watchedProvisioner) Look(ctx context.Context) (map[string]provisioner.Seen, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hang {
		w.mu.Unlock()
		<-ctx.Done()
		w.mu.Lock()
		return nil, node.WithKind(node.Unknown, ctx.Err())
	}
	seen := map[string]provisioner.Seen{}
	for id := range w.have {
		seen[id] = provisioner.Seen{Drift: w.drift[id]}
	}
	return seen, w.down
}

func (w *watchedProvisioner) Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
	data, err := w.fakeProvisioner.Provision(ctx, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && !w.sticky {
		delete(w.drift, r.ID)
	}
	return data, err
}

// change makes something of a workload differ; lose takes it away.
func (w *watchedProvisioner) change(id, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.drift == nil {
		w.drift = map[string]string{}
	}
	w.drift[id] = what
}

func (w *watchedProvisioner) sticks(sticky bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sticky = sticky
}

func (w *watchedProvisioner) lose(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.have, id)
}

func (w *watchedProvisioner) listed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.have))
}

func (w *watchedProvisioner) fail(down error, hang bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down, w.hang = down, hang
}

func (w *watchedProvisioner) answering(f func(context.Context, *workload.Reservation) (json.RawMessage, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = f
}
