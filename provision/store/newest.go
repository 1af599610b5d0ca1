package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/workload"
)

// NetworkKey tells networks apart inside the node: SHA-256 over user and name,
// each with its length in front. The short ID on the wire is for display.
type NetworkKey [sha256.Size]byte

// KeyOf returns the key of the network that r reserves; false when r isn't a
// network or its name can't be read.
func KeyOf(r *workload.Reservation) (NetworkKey, bool) {
	if r == nil || r.Type != workload.TypeNetwork {
		return NetworkKey{}, false
	}
	var data struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(r.Data, &data); err != nil || data.Name == "" {
		return NetworkKey{}, false
	}
	return workload.NetworkKey(r.User, data.Name), true
}

// networkFolder holds, for each network whose records are buried, the newest
// that was accepted.
const networkFolder = "networks"

// remembered is the content of a file in networkFolder.
type remembered struct {
	Created time.Time `json:"created"`
	// Until is when it may be forgotten.
	Until time.Time `json:"until"`
}

// remember is how long the newest of a network is remembered past its
// creation: an older one that could still be valid then would have had to be
// signed for longer than any node accepts (verify.DefaultMaxDuration).
const remember = 366 * 24 * time.Hour

// Newest implements Records.
func (s *FSStore) Newest(key NetworkKey) (time.Time, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	past, known := s.networks[key]
	e := s.index.newest(key)
	if e == nil || known && past.Created.After(e.record.Reservation.Created) {
		return past.Created, known
	}
	return e.record.Reservation.Created, true
}

// setNewest remembers the newest Created of a network past the burial of its
// records; an older one than is known changes nothing. The caller holds writing.
func (s *FSStore) setNewest(key NetworkKey, created time.Time) error {
	s.mu.RLock()
	past, known := s.networks[key]
	s.mu.RUnlock()
	if known && !created.After(past.Created) {
		return nil
	}
	r := remembered{Created: created, Until: created.Add(remember)}
	if err := s.putJSON(networkName(key), r); err != nil {
		return err
	}
	s.change(func() { s.networks[key] = r })
	return nil
}

func (s *FSStore) loadNetworks() error {
	names, err := s.disk.List(networkFolder)
	if err != nil {
		return err
	}
	for _, name := range names {
		var key NetworkKey
		raw, err := hex.DecodeString(path.Base(name))
		if err != nil || copy(key[:], raw) != len(key) {
			s.setAside(name, "", errors.New("its name isn't a network's key"))
			continue
		}
		var r remembered
		known, err := s.getJSON(name, &r)
		if err != nil {
			return err
		}
		if known {
			s.networks[key] = r
		}
	}
	return nil
}

// forget drops what is remembered of networks for long enough. The caller holds writing.
func (s *FSStore) forget() error {
	now, trusted := s.cfg.Clock.Now()
	if !trusted {
		return nil
	}
	var names []string
	var keys []NetworkKey
	s.mu.RLock()
	for key, r := range s.networks {
		if !now.Before(r.Until) {
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
