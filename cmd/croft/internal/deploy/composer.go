package deploy

import (
	"context"

	pkgerrors "github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// targets are the reservations that w's data refers to. Those of the project
// are known by the documents that were signed here, whatever the explorer says.
func (d *Deployer) targets(ctx context.Context, w *project.Workload) (project.Targets, error) {
	out := project.Targets{Workloads: map[string]project.Target{}, Volumes: map[string]string{}, Networks: map[string]string{}}
	for _, name := range w.Uses() {
		used := d.State.Current[name]
		if used == nil {
			continue
		}
		hash, err := hashOf(used)
		if err != nil {
			return out, err
		}
		out.Workloads[name] = project.Target{ID: used.ID, Hash: hash}
	}
	volumes, networks := w.Outside()
	for _, id := range volumes {
		hash, err := d.volumeHash(ctx, w.Node, id)
		if err != nil {
			return out, pkgerrors.Wrapf(err, "cannot make the data of %q", w.Name)
		}
		out.Volumes[id] = hash
	}
	for _, name := range networks {
		hash, err := d.networkHash(w.Node, name)
		if err != nil {
			return out, err
		}
		out.Networks[name] = hash
	}
	return out, nil
}

// hashOf is the hash of what an entry's user signed.
func hashOf(e *state.Entry) (string, error) {
	r, err := e.Reservation()
	if err != nil {
		return "", err
	}
	hash, err := r.Hash()
	return hash.Hex(), err
}

// volumeHash is the hash of a volume of one's own that isn't named as a workload
// of the file. The explorer is believed about which one its ID means, as it is
// where data holds the ID alone. Empty when it shows none on that node: what is
// wrong, the node says.
func (d *Deployer) volumeHash(ctx context.Context, nodeID, id string) (string, error) {
	for _, e := range d.State.Current {
		if e.ID == id && e.Type == workload.TypeVolume && e.Node == nodeID {
			return hashOf(e)
		}
	}
	var shown explorer.Reservation
	err := again(ctx, func() (err error) {
		shown, err = d.Explorer.Get(ctx, id)
		return err
	})
	if err != nil && node.KindOf(err).Final() {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	r := &shown.Reservation
	if r.User != d.Key.ID() || r.Type != workload.TypeVolume || r.NodeID != nodeID || workload.Verify(r) != nil {
		return "", nil
	}
	hash, err := r.Hash()
	return hash.Hex(), err
}

// networkHash is the hash of the project's network of that name on a node;
// empty when there is none.
func (d *Deployer) networkHash(nodeID, name string) (string, error) {
	for _, e := range d.State.Current {
		if e.Type == workload.TypeNetwork && e.Network == name && e.Node == nodeID {
			return hashOf(e)
		}
	}
	return "", nil
}
