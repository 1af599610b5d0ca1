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
	// drift is the difference by ID; with sticky no repair removes it.
	drift  map[string]string
	sticky bool
	// down makes every look fail; with hang looks hang.
	down error
	hang bool
	// hashed, when the test sets labels, holds the workloads there instead; busy is the
	// error of removing one.
	hashed map[provisioner.Label]bool
	busy   error
}

// labels sets the labels on the node from now on.
func (w *watchedProvisioner) labels(all ...provisioner.Label) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hashed = map[provisioner.Label]bool{}
	for _, l := range all {
		w.hashed[l] = true
	}
}

func (w *watchedProvisioner) labelled() []provisioner.Label {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Keys(w.hashed), provisioner.Label.Compare)
}

func (w *watchedProvisioner) blocked(busy error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = busy
}

func (w *watchedProvisioner) Remove(ctx context.Context, orphan provisioner.Label) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hashed == nil {
		w.mu.Unlock()
		defer w.mu.Lock()
		return w.fakeProvisioner.Remove(ctx, orphan)
	}
	if w.busy == nil {
		delete(w.hashed, orphan)
	}
	return w.busy
}

func (w *watchedProvisioner) Look(ctx context.Context) (map[provisioner.Label]provisioner.Seen, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hang {
		w.mu.Unlock()
		<-ctx.Done()
		w.mu.Lock()
		return nil, node.WithKind(node.Unknown, ctx.Err())
	}
	seen := map[provisioner.Label]provisioner.Seen{}
	for l := range w.hashed {
		seen[l] = provisioner.Seen{}
	}
	if w.hashed != nil {
		return seen, w.down
	}
	for id := range w.have {
		seen[provisioner.Label{ID: id}] = provisioner.Seen{Drift: w.drift[id]}
	}
	return seen, w.down
}

func (w *watchedProvisioner) Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
	data, err := w.fakeProvisioner.Provision(ctx, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if h, hashErr := r.Hash(); w.hashed != nil && err == nil && hashErr == nil {
		w.hashed[provisioner.Label{ID: r.ID, Hash: h}] = true
	}
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
