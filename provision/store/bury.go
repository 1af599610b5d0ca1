package store

import (
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Bury implements Records.
func (s *FSStore) Bury(id string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	parsed, r, err := s.known(id)
	if err != nil {
		return err
	}
	if !r.Tombstone() {
		return node.Errorf(node.Refused, "cannot bury record %s: its phase is %q", parsed, r.Phase)
	}
	if r.Result != nil && !r.Delivered {
		return node.Errorf(node.Busy, "cannot bury record %s: the explorer doesn't have its result", parsed)
	}
	return s.bury(parsed, r)
}

// bury removes a record; first it remembers a network's Created, if it is its name's newest.
func (s *FSStore) bury(id workload.ID, r Record) error {
	// A container's name only serves updates in place: after the burial, an older
	// reservation that arrives late is treated as one without a name.
	if r.HoldsName() && r.Reservation.Type == workload.TypeNetwork {
		if err := s.setNewest(r); err != nil {
			return err
		}
	}
	if err := s.drop(id); err != nil {
		return err
	}
	return s.forget()
}

// drop removes a record from the disk, then from the index.
func (s *FSStore) drop(id workload.ID) error {
	if err := s.disk.Delete(id.String()); err != nil {
		return err
	}
	delete(s.unsure, id)
	s.change(func() { s.index.remove(id) })
	return nil
}

// known returns the record of an ID in text form. NotExist when there is none.
func (s *memory) known(id string) (workload.ID, Record, error) {
	parsed, err := workload.ParseID(id)
	if err != nil {
		return parsed, Record{}, node.WithKind(node.Invalid, err)
	}
	r, ok := s.find(parsed)
	if !ok {
		return parsed, Record{}, node.Errorf(node.NotExist, "cannot find record %s: there is none", parsed)
	}
	return parsed, r, nil
}
