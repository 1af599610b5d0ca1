package store

import (
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// The seed's API: a cache of deployed reservations. It sees only records in phase Deployed,
// and no results.

// Add stores a deployed reservation. Exist when there is a record of that ID,
// deployed or not.
func (s *FSStore) Add(r *workload.Reservation) error {
	if r == nil {
		return node.Errorf(node.Invalid, "cannot add a reservation: there is none")
	}
	now, _ := s.cfg.Clock.Now()
	record, err := Adopted(r, now)
	if err != nil {
		return node.WithKind(node.Invalid, err)
	}
	id, err := check(record)
	if err != nil {
		return node.WithKind(node.Invalid, err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if old, known := s.find(id); known && old.Phase != Dismissed {
		return node.Errorf(node.Exist, "cannot add reservation %s: it exists already", id)
	}
	return s.put(id, record.Clone())
}

// Get returns a deployed reservation. NotExist when there is none of that ID.
func (s *memory) Get(id string) (*workload.Reservation, error) {
	_, r, err := s.deployed(id)
	return r.Reservation, err
}

// deployed returns the record of a deployed reservation.
func (s *memory) deployed(id string) (workload.ID, Record, error) {
	parsed, r, err := s.known(id)
	if err == nil && r.Phase != Deployed {
		return parsed, Record{}, node.Errorf(node.NotExist, "cannot find reservation %s: it isn't deployed", parsed)
	}
	return parsed, r, err
}

// Exists reports whether a reservation is deployed.
func (s *memory) Exists(id string) (bool, error) {
	_, err := s.Get(id)
	if node.KindOf(err) == node.NotExist {
		return false, nil
	}
	return err == nil, err
}

// Remove forgets a deployed reservation. NotExist when there is none of that ID.
func (s *FSStore) Remove(id string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	parsed, r, err := s.deployed(id)
	if err != nil {
		return err
	}
	return s.bury(parsed, r)
}

// GetExpired returns the deployed reservations that have expired, the earliest first; none
// while the clock can't be trusted.
func (s *FSStore) GetExpired() ([]*workload.Reservation, error) {
	now, trusted := s.cfg.Clock.Now()
	if !trusted {
		return nil, nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var due []*workload.Reservation
	for _, e := range s.index.expired(now) {
		due = append(due, e.record.Clone().Reservation)
	}
	return due, nil
}
