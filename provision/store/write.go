package store

import (
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store/persist"
)

// Begin implements Records.
func (s *FSStore) Begin(r Record) error {
	if r.Result != nil && r.Result.Sequence == 0 {
		return node.Errorf(node.Invalid, "cannot begin record %s: a new result is for Finish", r.Result.ID)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.write(r)
	return err
}

// Finish implements Records.
func (s *FSStore) Finish(r Record) (Record, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.write(r)
}

// write puts a record on the disk, then into the index. The caller holds writing.
func (s *FSStore) write(r Record) (Record, error) {
	id, err := check(r)
	if err != nil {
		return Record{}, node.WithKind(node.Invalid, err)
	}
	r = r.Clone()
	old, known := s.find(id)
	if err := s.conflict(id, r, old, known); err != nil {
		return Record{}, err
	}
	switch {
	case r.Result != nil && r.Result.Sequence == 0:
		if err := s.stamp(&r); err != nil {
			return Record{}, err
		}
	case known && old.Hash == r.Hash && sameResult(r.Result, old.Result):
		// The caller's copy may be older than the explorer's acknowledgement,
		// and a result is replaced by a newer one, never dropped.
		r.Result, r.Delivered = old.Result, old.Delivered
	}
	return r.Clone(), s.put(id, r)
}

// sameResult reports whether a record's result is to stay what it was.
func sameResult(given, old *workload.Result) bool {
	return old != nil && (given == nil || given.Sequence == old.Sequence)
}

// conflict is Exist when r would take the place of another reservation.
func (s *FSStore) conflict(id workload.ID, r, old Record, known bool) error {
	if known && old.Hash != r.Hash && !old.Refusal {
		return node.Errorf(node.Exist, "cannot store record %s: the ID is another reservation's", id)
	}
	if r.Refusal || known && old.Hash == r.Hash && !old.Refusal {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e := s.index.ofHash(r.Hash); e != nil && e.id != id {
		return node.Errorf(node.Exist, "cannot store record %s: reservation %s is the same request", id, e.id)
	}
	return nil
}

// stamp makes r's new result the store's next one.
func (s *FSStore) stamp(r *Record) error {
	sequence, err := s.nextSequence()
	if err != nil {
		return err
	}
	res := r.Result
	res.Sequence, res.Birth = sequence, s.Birth().ID
	res.ID, res.Type, res.NodeID = r.Reservation.ID, r.Reservation.Type, r.Reservation.NodeID
	res.Hash, res.Signature = append([]byte(nil), r.Hash[:]...), nil
	// What can't be signed and travel would never be delivered.
	res.Error = workload.ErrorText(res.Error)
	r.Delivered = false
	return nil
}

func (s *FSStore) put(id workload.ID, r Record) error {
	file, err := encode(r)
	if err != nil {
		return node.WithKind(node.Invalid, err)
	}
	if err := s.disk.Put(persist.Object{Name: id.String(), Data: file}); err != nil {
		return err
	}
	s.change(func() { s.index.put(id, r) })
	return nil
}

// find returns the record of an ID.
func (s *FSStore) find(id workload.ID) (Record, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.index.get(id)
	if e == nil {
		return Record{}, false
	}
	return e.record.Clone(), true
}

// Resend implements Records.
func (s *FSStore) Resend(id string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	parsed, r, err := s.known(id)
	if err != nil || r.Result == nil || !r.Delivered {
		return err
	}
	r.Delivered = false
	return s.put(parsed, r)
}

// Acknowledge implements Records.
func (s *FSStore) Acknowledge(id string, sequence int64) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	parsed, r, err := s.known(id)
	if err != nil || r.Result == nil || r.Delivered || sequence != r.Result.Sequence {
		return err
	}
	if r.Refusal {
		return s.drop(parsed)
	}
	r.Delivered = true
	return s.put(parsed, r)
}

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

// bury removes a record, and remembers first what its network had accepted.
func (s *FSStore) bury(id workload.ID, r Record) error {
	if key, network := KeyOf(r.Reservation); network && accepted(r) {
		if err := s.setNewest(key, r.Reservation.Created); err != nil {
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
	s.change(func() { s.index.remove(id) })
	return nil
}

// known returns the record of an ID that is given as text. NotExist when there is none.
func (s *FSStore) known(id string) (workload.ID, Record, error) {
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
