package store

import (
	"encoding/hex"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// Record implements Records.
func (s *memory) Record(id string) (Record, error) {
	_, r, err := s.known(id)
	return r, err
}

// ByHash implements Records. It leaves out Dismissed records.
func (s *memory) ByHash(h workload.Hash) (Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.index.ofHash(h)
	if e == nil {
		return Record{}, node.Errorf(node.NotExist, "cannot find a record with hash %s: there is none", hex.EncodeToString(h[:]))
	}
	return e.record.Clone(), nil
}

// Undelivered implements Records.
func (s *memory) Undelivered() ([]Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return clones(s.index.undelivered.list), nil
}

// List implements Records.
func (s *memory) List() ([]Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.list(), nil
}

// OfType implements Records.
func (s *memory) OfType(t workload.Type) ([]Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.ofType(t), nil
}

// Count implements Records.
func (s *memory) Count(p Phase) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.index.phases[p])
}

// Usage implements Records.
func (s *memory) Usage(user string) (of, all Usage) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.users[user].usage(), s.index.all.usage()
}

// Named implements Records.
func (s *memory) Named(key NetworkKey) ([]Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return clones(s.index.byName[key].list), nil
}
