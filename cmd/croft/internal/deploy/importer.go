package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/workload"
)

// Imported is a reservation that was assigned to a workload of the file.
type Imported struct {
	Name string        `json:"name"`
	Type workload.Type `json:"type"`
	Node string        `json:"node"`
	ID   string        `json:"id"`
	// Same is whether it is as the file asks, as far as that can be compared.
	Same bool `json:"same"`
	// Secrets is whether it has secrets, which can't be compared.
	Secrets bool `json:"secrets"`
}

// notTheFiles is the digest of an imported reservation that differs from the file.
const notTheFiles = "imported"

// Importer takes reservations that are there into the project.
type Importer struct {
	composer *composer
	observer *Observer
	ledger   *ledger
	now      func() time.Time
}

// Import assigns the user's live reservations to workloads of f. chosen has the IDs by
// the workload's name; when it is empty, each workload that isn't in the state gets the
// reservation that matches the file, a network the one of its name. Nothing is signed or
// pushed. On an error the state is unchanged.
func (i *Importer) Import(ctx context.Context, f *project.File, chosen map[string]string) ([]Imported, error) {
	all, err := i.observer.Mine(ctx)
	if err != nil {
		return nil, err
	}
	var out []Imported
	made := map[string]*state.Entry{}
	for _, w := range f.Workloads {
		id, said := chosen[w.Name]
		if len(chosen) > 0 && !said || !said && i.ledger.Current[w.Name] != nil {
			continue
		}
		one, err := i.pick(ctx, w, id, all)
		if err != nil {
			i.forget(made)
			return nil, err
		}
		if one == nil {
			continue
		}
		made[w.Name] = one.entry
		i.ledger.Current[w.Name] = one.entry
		out = append(out, Imported{
			Name: w.Name, Type: w.Type, Node: w.Node, ID: one.entry.ID, Same: one.same, Secrets: len(w.Secrets()) > 0,
		})
	}
	return out, i.ledger.save()
}

// forget takes entries out of the state again.
func (i *Importer) forget(made map[string]*state.Entry) {
	for name := range made {
		delete(i.ledger.Current, name)
	}
}

// candidate is a reservation that may be assigned to a workload.
type candidate struct {
	entry *state.Entry
	same  bool
}

// pick finds the reservation for w among all: the one of that ID, or the only one
// that fits. Nil when there is none.
func (i *Importer) pick(ctx context.Context, w *project.Workload, id string, all []Observation) (*candidate, error) {
	if old := i.ledger.Current[w.Name]; old != nil && id != "" {
		return nil, errors.Errorf("cannot import %s as %q: %s has that name already; delete it, or choose another name", id, w.Name, old.ID)
	}
	if w.Type == workload.TypeNetwork && id == "" {
		all = newestNetworks(all)
	}
	var fit []*candidate
	for _, o := range all {
		if id != "" && o.Document.ID != id || id == "" && i.unfit(w, o) != "" {
			continue
		}
		if why := i.unfit(w, o); id != "" && why != "" {
			return nil, errors.Errorf("cannot import %s as %q: %s", id, w.Name, why)
		}
		one, err := i.candidate(ctx, w, o)
		if err != nil {
			return nil, err
		}
		if id != "" || one.same || w.Type == workload.TypeNetwork {
			fit = append(fit, one)
		}
	}
	switch {
	case len(fit) > 1:
		var ids []string
		for _, one := range fit {
			ids = append(ids, one.entry.ID)
		}
		return nil, errors.Errorf("cannot import %q: %s all match the file; choose one with `croft import %s=ID`", w.Name, strings.Join(ids, ", "), w.Name)
	case len(fit) == 1:
		return fit[0], nil
	case id != "":
		return nil, errors.Errorf("cannot import %s as %q: the explorer shows no reservation %s that your key has signed", id, w.Name, id)
	}
	return nil, nil
}

// unfit is the reason why o can't be assigned to w; empty when it can.
func (i *Importer) unfit(w *project.Workload, o Observation) string {
	r := o.Document
	switch {
	case i.ledger.holds(r.ID):
		return "it has another name in this project"
	case r.Type != w.Type:
		return fmt.Sprintf("it is a %s, the file asks for a %s", r.Type, w.Type)
	case r.NodeID != w.Node:
		return fmt.Sprintf("it is on node %s, the file asks for %s", r.NodeID, w.Node)
	case networkName(o) != w.Network:
		return fmt.Sprintf("its network's name is %q, the file says %q", networkName(o), w.Network)
	case !mayLive(o, i.now()):
		return "it has ended: " + string(o.State)
	}
	return ""
}

// candidate makes the entry that assigns o to w.
func (i *Importer) candidate(ctx context.Context, w *project.Workload, o Observation) (*candidate, error) {
	signed := *o.Document
	id, renewal := signed.ID, signed.Renewal
	signed.ID, signed.Renewal, signed.Deletion = "", nil, nil
	document, err := workload.Encode(&signed)
	if err != nil {
		return nil, err
	}
	e := &state.Entry{
		Name: w.Name, Type: w.Type, Node: w.Node, Network: w.Network, ID: id, Digest: notTheFiles,
		Duration: signed.Duration, Document: string(document), Seen: o.Seen,
	}
	if renewal != nil && workload.VerifyRenewal(o.Document) == nil {
		e.Renewal, e.Duration = renewal, renewal.Expires.Sub(signed.Created)
	}
	known, err := i.composer.targets(ctx, w)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(w.Uses(), func(name string) bool { return known.Workloads[name].ID == "" }) {
		return &candidate{entry: e}, nil // the file's workloads aren't deployed, so it uses others
	}
	e.Uses = map[string]string{}
	for name, used := range known.Workloads {
		e.Uses[name] = used.ID
	}
	same, err := w.Alike(signed.Data, known, i.composer.open)
	if err != nil || !same {
		return &candidate{entry: e}, err
	}
	e.Digest, err = i.composer.digest(w)
	return &candidate{entry: e, same: true}, err
}
