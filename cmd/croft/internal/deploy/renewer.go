package deploy

import (
	"context"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// Renewer lets reservations live longer.
type Renewer struct {
	explorer interface {
		Renew(ctx context.Context, id string, n workload.Renewal) error
	}
	key    sign.KeyPair
	ledger *ledger
	log    progress
}

// Entry signs that an entry's workload lives until n.Expires; duration is
// the project file's present one.
func (r *Renewer) Entry(ctx context.Context, e *state.Entry, n workload.Renewal, duration time.Duration) error {
	document, err := e.Reservation()
	if err != nil {
		return err
	}
	n, err = r.Reservation(ctx, document, n)
	if err != nil {
		return errors.Wrapf(err, "cannot renew %q", e.Name)
	}
	e.Renewal, e.Duration = &n, duration
	if err := r.ledger.save(); err != nil {
		return err
	}
	r.log.say("%s: %s lasts until %s", e.Name, e.ID, n.Expires.Local().Format("2006-01-02 15:04"))
	return nil
}

// Reservation signs and brings a renewal of a document, and returns it.
func (r *Renewer) Reservation(ctx context.Context, document *workload.Reservation, n workload.Renewal) (workload.Renewal, error) {
	signed := *document
	if err := signed.SignRenewal(n, r.key.Private()); err != nil {
		return n, err
	}
	return *signed.Renewal, again(ctx, func() error { return r.explorer.Renew(ctx, document.ID, *signed.Renewal) })
}
