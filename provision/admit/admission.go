package admit

import (
	"context"

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
	Offer func(ctx context.Context) (Offer, error)
}

// Admission applies a Policy to reservations: it is the engine's admission.
type Admission struct {
	cfg Config
}

// New makes an Admission.
func New(c Config) (*Admission, error) {
	if c.Demand == nil || c.Offer == nil {
		return nil, errors.New("cannot admit workloads: Demand and Offer are required")
	}
	return &Admission{cfg: c}, nil
}

// Demand is what r takes. What can't be told takes nothing: another version of
// croft admitted it, and it is there.
func (a *Admission) Demand(r *workload.Reservation) provisioner.Demand {
	d, err := a.cfg.Demand(r)
	if err != nil {
		return provisioner.Demand{}
	}
	return d
}

// Offer asks what the node has. It may wait for modules; whatever fails is worth
// another try.
func (a *Admission) Offer(ctx context.Context) (Offer, error) {
	offer, err := a.cfg.Offer(ctx)
	if err != nil {
		return Offer{}, node.WithKind(retryable(err), errors.Wrap(err, "cannot admit workloads: it isn't known what the node offers"))
	}
	return offer, nil
}

// retryable keeps a failure to ask from being taken for an answer.
func retryable(err error) node.Kind {
	if kind := node.KindOf(err); !kind.Final() && kind != node.Internal {
		return kind
	}
	return node.Transient
}

// Admit says whether there is room for r beside what its user and all users have,
// which don't count r itself. It waits for nothing.
// Invalid when it can't be told what r takes; else what Policy.Check says.
func (a *Admission) Admit(r *workload.Reservation, user, all store.Usage, offer Offer) error {
	need, err := a.cfg.Demand(r)
	if err == nil {
		err = a.cfg.Policy.contained(r)
	}
	if err != nil {
		return err
	}
	want := Workload{ID: r.ID, User: r.User, Demand: need, Whole: r.Type == workload.TypeVolume}
	if held, comesBack := offer.Held[r.ID]; comesBack {
		offer.Total, want.Whole = offer.Total.Add(held), false
	}
	return a.cfg.Policy.Check(want, user, all, offer)
}

// Wait says whether r, which can't be judged yet, may wait beside those of its
// user and of all users that do, which don't count r itself.
func (a *Admission) Wait(r *workload.Reservation, user, all store.Usage) error {
	return a.cfg.Policy.MayWait(r.ID, user, all)
}
