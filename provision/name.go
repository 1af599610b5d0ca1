package provision

import (
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// A network that its user reserves again under the same name is the same
// network, changed: the newest one's words count, and its end is the end of all.

// namesakes returns the records that were taken in under r's name, but r's own.
func namesakes(r *workload.Reservation, have []store.Record) []store.Record {
	key, named := store.KeyOf(r)
	if !named {
		return nil
	}
	var out []store.Record
	for _, rec := range have {
		if rec.ID() == r.ID || !holdsName(rec) {
			continue
		}
		if other, ok := store.KeyOf(rec.Reservation); ok && other == key {
			out = append(out, rec)
		}
	}
	return out
}

// holdsName reports whether rec was taken in under its name, and not only judged.
func holdsName(rec store.Record) bool {
	return rec.Phase != store.Failed && (rec.Phase != store.Retry || rec.Attempts > 0)
}

// supersedes refuses an update that isn't signed later than the newest one
// that was taken in under that name, ended ones too: nobody goes back by
// bringing an old one again.
func (e *NodeEngine) supersedes(r *workload.Reservation, have []store.Record) error {
	key, named := store.KeyOf(r)
	if !named {
		return nil
	}
	for _, rec := range namesakes(r, have) {
		if !r.Created.After(rec.Reservation.Created) {
			return node.Errorf(node.Refused, "cannot provision %s: created is %s, must be after %s of %s, which has the same name",
				r.ID, r.Created.UTC().Format(time.RFC3339Nano), rec.Reservation.Created.UTC().Format(time.RFC3339Nano), rec.ID())
		}
	}
	if newest, ok := e.records.Newest(key); ok && newest.After(r.Created) {
		return node.Errorf(node.Refused, "cannot provision %s: created is %s, must be after %s, when the newest of that name was",
			r.ID, r.Created.UTC().Format(time.RFC3339Nano), newest.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// newer returns the newest record of rec's name that is newer than rec.
func (e *NodeEngine) newer(rec store.Record) (*store.Record, error) {
	key, named := store.KeyOf(rec.Reservation)
	if !named {
		return nil, nil
	}
	if latest, known := e.records.Newest(key); known && !latest.After(rec.Reservation.Created) {
		return nil, nil // most are their name's newest, and need no look at all the others
	}
	have, err := e.records.List()
	if err != nil {
		return nil, err
	}
	var newest *store.Record
	created := rec.Reservation.Created
	for _, other := range namesakes(rec.Reservation, have) {
		if other.Reservation.Created.After(created) {
			newest, created = &other, other.Reservation.Created
		}
	}
	return newest, nil
}

// outlived reports whether there is nothing to provision for rec, because what
// has its name is a newer one's. Where that has ended, rec has too.
func (e *NodeEngine) outlived(rec store.Record) (bool, error) {
	newest, err := e.newer(rec)
	if err != nil || newest == nil {
		return false, err
	}
	if newest.Phase == store.Ended {
		return true, e.entomb(rec, newest.End)
	}
	if rec.Phase != store.Deployed {
		rec.Cause = "replaced by " + newest.ID()
		return true, e.entomb(rec, workload.StateDeleted)
	}
	return true, nil
}

// entombOlder ends the older ones of a name with the newest: what they
// asked for is gone, and nothing falls back to them.
func (e *NodeEngine) entombOlder(rec store.Record) error {
	if _, named := store.KeyOf(rec.Reservation); !named {
		return nil
	}
	have, err := e.records.List()
	if err != nil {
		return e.again(rec.ID(), err)
	}
	for _, older := range namesakes(rec.Reservation, have) {
		if older.Phase != store.Ended && older.Reservation.Created.Before(rec.Reservation.Created) {
			if err := e.again(older.ID(), e.entomb(older, rec.End)); err != nil {
				return nil
			}
		}
	}
	return nil
}
