package provision

import (
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// WorkloadStatus is what an operator sees of a workload.
type WorkloadStatus struct {
	ID    string        `json:"id"`
	Type  workload.Type `json:"type"`
	User  string        `json:"user"`
	Phase store.Phase   `json:"phase"`
	// Attempts counts those of the provision, or of the decommission, that is
	// going on; Error is why the last one failed, NextAttempt when the next one
	// is due (zero for none).
	Attempts    int       `json:"attempts"`
	Error       string    `json:"error,omitempty"`
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	// Expires is its signed end.
	Expires time.Time `json:"expires"`
	// State is that of its newest result, Delivered whether the explorer has it.
	State     workload.State `json:"state,omitempty"`
	Delivered bool           `json:"delivered"`
	// Restored counts since the start how often it was made right after it had
	// drifted; Drift is the last time, nil for never.
	Restored int    `json:"restored"`
	Drift    *Drift `json:"drift,omitempty"`
	// Pending says what it waits for; empty when it waits for nothing.
	Pending string `json:"pending,omitempty"`
}

// Status returns all that the node remembers, by ID.
func (e *NodeEngine) Status() ([]WorkloadStatus, error) {
	recs, err := e.records.List()
	if err != nil {
		return nil, err
	}
	out := make([]WorkloadStatus, 0, len(recs))
	for _, rec := range recs {
		out = append(out, e.shown(rec))
	}
	return out, nil
}

// StatusOf returns what the node remembers of one reservation. NotExist when
// it remembers none of that ID.
func (e *NodeEngine) StatusOf(id string) (WorkloadStatus, error) {
	rec, err := e.records.Record(id)
	if err != nil {
		return WorkloadStatus{}, err
	}
	return e.shown(rec), nil
}

func (e *NodeEngine) shown(rec store.Record) WorkloadStatus {
	s := WorkloadStatus{
		ID:          rec.ID(),
		Type:        rec.Reservation.Type,
		User:        rec.Reservation.User,
		Phase:       rec.Phase,
		Attempts:    rec.Attempts,
		Error:       rec.Cause,
		NextAttempt: rec.NextAttempt,
		Expires:     rec.Reservation.Expires(),
		Delivered:   rec.Delivered,
		Pending:     e.pending(rec),
	}
	if rec.Result != nil {
		s.State = rec.Result.State
	}
	s.Restored, s.Drift = e.drifts.shown(rec.ID())
	return s
}

// Ready reports whether the node has restored what it had: from then on it
// takes in what sources yield.
func (e *NodeEngine) Ready() bool { return e.ready.Load() }

// pending says what rec waits for.
func (e *NodeEngine) pending(rec store.Record) string {
	_, trusted := e.clock.Now()
	fetch, fetching := e.fetches.text(rec.ID())
	switch {
	case fetching && lives(rec.Phase):
		return fetch
	case e.isHeld(rec):
		return "its data is kept for now"
	case rec.Phase == store.Leaving:
		return "decommission"
	case rec.Phase == store.Retry && rec.Attempts == 0:
		return "to be judged"
	case rec.Phase == store.Intent, rec.Phase == store.Retry:
		return "provision"
	case !rec.Delivered && rec.Result != nil:
		return "the explorer"
	case !trusted && rec.Phase == store.Deployed:
		return "a clock that can be trusted, to expire"
	}
	return ""
}
