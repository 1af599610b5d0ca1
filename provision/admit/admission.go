package admit

import (
	"context"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/store"
)

// Config is an Admission's configuration.
type Config struct {
	Policy Policy
	// Demand returns a reservation's demand; Invalid when it can't be told.
	Demand func(r *workload.Reservation) (provisioner.Demand, error)
	// Off is the module that the operator has switched off and workloads of a type need; empty for none. nil: all are on.
	Off func(t workload.Type) string
	// Offer returns the node's capacity, used or not.
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

// Demand returns r's demand, zero when it can't be told: another version of croft admitted
// it, and it is on the node.
func (a *Admission) Demand(r *workload.Reservation) provisioner.Demand {
	d, err := a.cfg.Demand(r)
	if err != nil {
		return provisioner.Demand{}
	}
	return d
}

// Offer asks for the node's capacity. It may wait for modules. Every failure may be retried.
func (a *Admission) Offer(ctx context.Context) (Offer, error) {
	offer, err := a.cfg.Offer(ctx)
	if err != nil {
		return Offer{}, node.WithKind(retryable(err), errors.Wrap(err, "cannot admit workloads: the node's capacity isn't known"))
	}
	return offer, nil
}

// retryable gives a failed query a kind that isn't taken for a refusal.
func retryable(err error) node.Kind {
	if kind := node.KindOf(err); !kind.Final() && kind != node.Internal {
		return kind
	}
	return node.Transient
}

// Admit checks whether there is room for r beside its user's and all users' usage, neither of which
// counts r. It waits for nothing. Invalid when r's demand can't be told, Refused when its module is switched off; else
// Policy.Check's error.
func (a *Admission) Admit(r *workload.Reservation, user, all store.Usage, offer Offer) error {
	need, err := a.cfg.Demand(r)
	if err == nil {
		err = a.cfg.Policy.contained(r)
	}
	held, comesBack := offer.Held[r.ID]
	if err == nil && a.cfg.Off != nil && !comesBack {
		if off := a.cfg.Off(r.Type); off != "" {
			err = node.Errorf(node.Refused, "cannot admit %s: type is %q, which needs the module %s: the node's operator has switched that off", r.ID, r.Type, off)
		}
	}
	if err != nil {
		return err
	}
	want := Workload{ID: r.ID, User: r.User, Demand: need, Whole: r.Type == workload.TypeVolume || r.Type == workload.TypeKubernetes}
	if comesBack {
		offer.Total, want.Whole = offer.Total.Add(held), false
	}
	return a.cfg.Policy.Check(want, user, all, offer)
}

// Wait checks whether r, which can't be judged yet, may wait beside its user's and all
// users' waiting reservations, neither of which count r.
func (a *Admission) Wait(r *workload.Reservation, user, all store.Usage) error {
	return a.cfg.Policy.MayWait(r.ID, user, all)
}
