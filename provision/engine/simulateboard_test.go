package engine

import (
	"maps"
	"slices"

	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/uses"
)

// simBoard is what a simulated node shows.
type simBoard struct {
	shown   map[string]work.WorkloadSpec
	orphans []work.OrphanSpec
	events  int
}

func newSimBoard() *simBoard { return &simBoard{shown: map[string]work.WorkloadSpec{}} }

// Workloads implements Board.
func (b *simBoard) Workloads(shown []work.WorkloadSpec, gone []string) {
	for _, s := range shown {
		b.shown[s.ID] = s
	}
	for _, id := range gone {
		delete(b.shown, id)
	}
}

// Orphans implements Board.
func (b *simBoard) Orphans(all []work.OrphanSpec) { b.orphans = all }

// Event implements Board.
func (b *simBoard) Event(e work.EventSpec) {
	if _, known := work.ReasonOf(e.Reason); !known || e.Object == "" || e.Last.IsZero() {
		panic("an event without a reason, an object or a time: " + e.Reason)
	}
	b.events++
}

// checkBoard asserts that what is shown is what the records say: each record's phase, and who uses whose workload.
func (s *simulation) checkBoard() {
	n := s.node
	if n == nil || !n.restored || s.disk.dead || s.failed != "" {
		return
	}
	recs, err := n.store.List()
	if err != nil {
		return
	}
	users := map[string][]string{}
	for _, rec := range recs {
		for _, other := range recs {
			if refers(rec, other) {
				users[other.ID()] = append(users[other.ID()], uses.Name(rec))
			}
		}
	}
	for _, rec := range recs {
		shown, ok := n.board.shown[rec.ID()]
		if !ok || shown.Phase != string(rec.Phase) || shown.User != rec.Reservation.User {
			s.fail("it is shown as %q: %s", shown.Phase, describe(rec))
		}
		slices.Sort(users[rec.ID()])
		if !slices.Equal(shown.Users, users[rec.ID()]) {
			s.fail("its users are shown as %v, they are %v: %s", shown.Users, users[rec.ID()], describe(rec))
		}
	}
	if len(n.board.shown) > len(recs) {
		gone := maps.Clone(n.board.shown)
		for _, rec := range recs {
			delete(gone, rec.ID())
		}
		s.fail("%d workloads are shown, and there are %d records; without one are %v", len(n.board.shown), len(recs), sortedKeys(gone))
	}
}

// refers reports whether a record's workload is in use of another's, by their documents alone.
func refers(rec, other store.Record) bool {
	if other.Tombstone() || !uses.Holds(rec) || rec.Reservation.User != other.Reservation.User {
		return false
	}
	network, volumes := uses.References(rec.Reservation)
	return other.Reservation.Type == "volume" && slices.Contains(volumes, other.ID()) || network != "" && other.Reservation.Type == "network" && simDataOf(other.Reservation).Name == network
}
