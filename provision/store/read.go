package store

import (
	"encoding/hex"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Record implements Records.
func (s *FSStore) Record(id string) (Record, error) {
	_, r, err := s.known(id)
	return r, err
}

// ByHash implements Records. Refusals aren't found by it.
func (s *FSStore) ByHash(h workload.Hash) (Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.index.ofHash(h)
	if e == nil {
		return Record{}, node.Errorf(node.NotExist, "cannot find a record with hash %s: there is none", hex.EncodeToString(h[:]))
	}
	return e.record.Clone(), nil
}

// Undelivered implements Records.
func (s *FSStore) Undelivered() ([]Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.waiting(), nil
}

// List implements Records.
func (s *FSStore) List() ([]Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.list(), nil
}
