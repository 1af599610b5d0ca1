package admit

import (
	"context"
	"sync"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// Config is what an Admission is made of.
type Config struct {
	Policy Policy
	// Demand says what a reservation takes; Invalid when it can't be told.
	Demand func(r *workload.Reservation) (provisioner.Demand, error)
	// Offer says what the node has in all, used or not.
	Offer func(ctx context.Context) (provisioner.Demand, error)
}

// Admission applies a Policy to the records: it is the engine's admission.
type Admission struct {
	cfg Config

	// demands saves reading each record's data at each admission.
	mu      sync.Mutex
	demands map[workload.Hash]provisioner.Demand
}

// New makes an Admission.
func New(c Config) (*Admission, error) {
	if c.Demand == nil || c.Offer == nil {
		return nil, errors.New("cannot admit workloads: Demand and Offer are required")
	}
	return &Admission{cfg: c, demands: map[workload.Hash]provisioner.Demand{}}, nil
}

// Admit says whether there is room for r beside what the node has.
func (a *Admission) Admit(ctx context.Context, r *workload.Reservation, have []store.Record) error {
	need, err := a.cfg.Demand(r)
	if err != nil {
		return err
	}
	offer, err := a.cfg.Offer(ctx)
	if err != nil {
		return node.WithKind(retryable(err), errors.Wrapf(err, "cannot admit %s: it isn't known what the node offers", r.ID))
	}
	return a.cfg.Policy.Check(Workload{ID: r.ID, User: r.User, Demand: need, Present: true}, a.workloads(have), offer)
}

// retryable keeps a failure to ask from being taken for an answer.
func retryable(err error) node.Kind {
	if kind := node.KindOf(err); !kind.Final() && kind != node.Internal {
		return kind
	}
	return node.Transient
}

// workloads is what the records say that the node has or remembers.
func (a *Admission) workloads(have []store.Record) []Workload {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := make(map[workload.Hash]provisioner.Demand, len(have))
	out := make([]Workload, 0, len(have))
	for _, rec := range have {
		if rec.Refusal {
			continue
		}
		w := Workload{ID: rec.ID(), User: rec.Reservation.User, Present: present(rec)}
		if w.Present {
			w.Demand = a.demand(rec)
			seen[rec.Hash] = w.Demand
		}
		out = append(out, w)
	}
	a.demands = seen
	return out
}

// present reports whether the record's workload holds what it was promised.
// One that waits for its first attempt hasn't been admitted.
func present(rec store.Record) bool {
	return !rec.Tombstone() && (rec.Phase != store.Retry || rec.Attempts > 0)
}

// demand is what the record's workload takes. One that can't be told takes
// nothing: it was admitted by another version of croft, and is there.
func (a *Admission) demand(rec store.Record) provisioner.Demand {
	if d, known := a.demands[rec.Hash]; known {
		return d
	}
	d, err := a.cfg.Demand(rec.Reservation)
	if err != nil {
		return provisioner.Demand{}
	}
	return d
}
