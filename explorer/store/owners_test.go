package store

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// A user owns a workload at a node from the node's first ok result until the reservation's
// end: a push alone makes no owner.
func TestOwners(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "e.db"))
	key, now := user(t), time.Now()
	register(t, s, "one")
	register(t, s, "two")
	pushed, err := s.Reservations.Reserve(t.Context(), push(t, key, "one"))
	must(t, err)
	owns := func(when string, nodeID string, at time.Time, want bool) {
		t.Helper()
		got, err := s.Reservations.Owns(context.Background(), key.ID(), nodeID, at)
		must(t, err)
		if got != want {
			t.Errorf("%s: it owns something at %s: %t", when, nodeID, got)
		}
	}
	owns("pushed", "one", now, false)
	answer := func(state workload.State, sequence int64) {
		t.Helper()
		r := &workload.Result{Type: workload.TypeVolume, ID: fmt.Sprint(pushed.N, "-1"), Created: now.UTC(), State: state, Birth: "b", Sequence: sequence}
		body, err := workload.EncodeResult(r)
		must(t, err)
		must(t, s.Results.Put(t.Context(), Answer{N: pushed.N, Result: r, Body: body}))
	}
	answer(workload.StateError, 1)
	owns("failed", "one", now, false)
	answer(workload.StateOK, 2)
	owns("there", "one", now, true)
	owns("there", "two", now, false)
	owns("expired", "one", now.Add(2*time.Hour), false)
	answer(workload.StateDeleted, 3)
	owns("gone", "one", now, false)
}

// TestOwnersAreFoundByTheirIndex: a user's many pushes don't make the query slow.
func TestOwnersAreFoundByTheirIndex(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "e.db"))
	rows, err := s.read.QueryContext(t.Context(), `EXPLAIN QUERY PLAN SELECT EXISTS (`+owned+`)`, "u", "n", 1)
	must(t, err)
	defer rows.Close()
	var text strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		must(t, rows.Scan(&id, &parent, &unused, &detail))
		text.WriteString(detail + "\n")
	}
	must(t, rows.Err())
	if !strings.Contains(text.String(), "reservations_owner (user=? AND node=? AND expires>?)") {
		t.Errorf("the plan is %s", text.String())
	}
}
