package provision

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// buryLater is when a tombstone is looked at again whose result the explorer
// doesn't have yet.
const buryLater = time.Hour

// due handles the record of that ID when its signed end has come.
func (e *NodeEngine) due(ctx context.Context, id string) error {
	rec, err := e.records.Record(id)
	if err != nil {
		return err
	}
	switch {
	case rec.Phase == store.Leaving:
		return nil // it has a time of its own
	case !e.over(rec):
		e.schedule(rec)
		return nil
	case lives(rec.Phase):
		return e.leave(ctx, rec, workload.StateExpired)
	case !rec.Delivered && rec.Result != nil:
		e.expiry.Set(id, rec.Reservation.Type, e.now().Add(buryLater))
		return nil
	}
	if err := e.guard("bury", id, func() error { return e.records.Bury(id) }); err != nil {
		return err
	}
	e.changes.tell()
	return nil
}
