package provision_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/croft-edge/croft/pkg/changes"
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
	// tells is the module's stream of changes, nil for a module without one; looked are
	// the IDs of each look at some, and nil for each look at all.
	tells  *mutable
	looked [][]string
}

// mutable is a stream of changes that can be muted.
type mutable struct {
	hub *changes.Hub

	mu   sync.Mutex
	mute bool
}

// Changes implements provisioner.Changes.
func (m *mutable) Changes(ctx context.Context) (<-chan node.Change, error) {
	in, out := m.hub.Changes(ctx), make(chan node.Change)
	go func() {
		defer close(out)
		for c := range in {
			m.mu.Lock()
			mute := m.mute
			m.mu.Unlock()
			if mute {
				continue
			}
			select {
			case out <- c:
			case <-ctx.Done():
			}
		}
	}()
	return out, nil
}

func (m *mutable) set(mute bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mute = mute
}

// Streams implements provisioner.Told.
func (w *watchedProvisioner) Streams() []provisioner.Changes {
	if w.tells == nil {
		return nil
	}
	return []provisioner.Changes{w.tells}
}

// LookAt implements provisioner.Narrow.
func (w *watchedProvisioner) LookAt(ctx context.Context, ids []string) (map[provisioner.Label]provisioner.Seen, error) {
	all, err := w.look(ctx, ids)
	maps.DeleteFunc(all, func(l provisioner.Label, _ provisioner.Seen) bool { return !slices.Contains(ids, l.ID) })
	return all, err
}

// looks returns the looks since the last call.
func (w *watchedProvisioner) looks() [][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.looked
	w.looked = nil
	return all
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
	return w.look(ctx, nil)
}

func (w *watchedProvisioner) look(ctx context.Context, ids []string) (map[provisioner.Label]provisioner.Seen, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tells != nil {
		w.looked = append(w.looked, slices.Clone(ids))
	}
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
