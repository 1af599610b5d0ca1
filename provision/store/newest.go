package store

import (
	"time"

	"github.com/croft-edge/croft/provision/lifecycle"
)

// networkFolder holds, for each network whose records are buried, the newest accepted Created.
const networkFolder = "networks"

// remembered is the content of a file in networkFolder.
type remembered struct {
	Created time.Time `json:"created"`
	// Until is when it may be forgotten; Since proves that this time has come.
	Until time.Time `json:"until"`
	Since moment    `json:"since,omitzero"`
}

// remember is how long past its Created the newest of a network is remembered: an older one still valid
// then would have a longer duration than any node accepts (verify.DefaultMaxDuration).
const remember = 366 * 24 * time.Hour

// Newest implements Records.
func (s *memory) Newest(key NetworkKey) (time.Time, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	past, known := s.networks[key]
	e := s.index.newest(key)
	if e == nil || known && past.Created.After(e.record.Reservation.Created) {
		return past.Created, known
	}
	return e.record.Reservation.Created, true
}

// setNewest remembers a record's Created past its burial, if it is the newest known of its
// name. The caller holds writing.
func (s *FSStore) setNewest(rec Record) error {
	key, created := rec.Name, rec.Reservation.Created
	s.mu.RLock()
	past, known := s.networks[key]
	s.mu.RUnlock()
	if known && !created.After(past.Created) {
		return nil
	}
	r := remembered{Created: created, Until: created.Add(remember), Since: moment(rec.Since)}
	if err := s.putJSON(networkName(key), r); err != nil {
		return err
	}
	s.change(func() { s.networks[key] = r })
	return nil
}

// forgetAtOnce is how many names a burial checks, so that its work doesn't grow with the
// number of names.
const forgetAtOnce = 16

// forget drops remembered names whose Until has provably come. It checks a few of them,
// picked at random. The caller holds writing.
func (s *FSStore) forget() error {
	now := s.cfg.Clock.Read()
	var names []string
	var keys []NetworkKey
	s.mu.RLock()
	looked := 0
	for key, r := range s.networks {
		if looked++; looked > forgetAtOnce {
			break
		}
		if lifecycle.Proven(r.Until, lifecycle.Since(r.Since), now) {
			keys, names = append(keys, key), append(names, networkName(key))
		}
	}
	s.mu.RUnlock()
	if len(names) == 0 {
		return nil
	}
	if err := s.disk.Delete(names...); err != nil {
		return err
	}
	s.change(func() {
		for _, key := range keys {
			delete(s.networks, key)
		}
	})
	return nil
}
