package engine

import (
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
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
func (e *Engine) Status() ([]WorkloadStatus, error) {
	recs, err := e.parts.Records.List()
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
func (e *Engine) StatusOf(id string) (WorkloadStatus, error) {
	rec, err := e.parts.Records.Record(id)
	if err != nil {
		return WorkloadStatus{}, err
	}
	return e.shown(rec), nil
}

func (e *Engine) shown(rec store.Record) WorkloadStatus {
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
	s.Restored, s.Drift = e.notes.drifts.shown(rec.ID())
	return s
}

// pending says what rec waits for.
func (e *Engine) pending(rec store.Record) string {
	switch rec.Phase {
	case lifecycle.Fetching, lifecycle.Intent:
		if fetch, fetching := e.notes.progress.text(rec.ID()); fetching {
			return fetch
		}
		return "provision"
	case lifecycle.Waiting:
		return "to be judged"
	case lifecycle.Retry:
		return "provision"
	case lifecycle.Stopping:
		return "to be stopped; its data is kept for now"
	case lifecycle.Held:
		return "its data is kept for now"
	case lifecycle.Blocked:
		return "decommission, once nothing uses it"
	case lifecycle.Leaving:
		return "decommission"
	}
	if !rec.Delivered && rec.Result != nil {
		return "the explorer"
	}
	if rec.Phase == lifecycle.Deployed && e.parts.Clock.Read().Level < clock.Stop {
		return "a clock that can be trusted, to expire"
	}
	return ""
}
