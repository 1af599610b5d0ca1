package store

import (
	"encoding/binary"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// readMeta reads the cursor, the clock mark and the birth.
func (r *reading) readMeta() error {
	if _, err := r.getJSON(cursorName, &r.meta.cursor); err != nil {
		return err
	}
	if _, err := r.getJSON(clockName, &r.meta.mark); err != nil {
		return err
	}
	before := len(r.findings)
	var b birthFile
	sound, err := r.getJSON(birthName, &b)
	switch {
	case err != nil:
		return err
	case sound:
		r.meta.birth, r.birth = b, birthSound
	case len(r.findings) > before, r.hasQuarantined(birthName):
		r.birth = birthDamaged
	}
	return nil
}

// hasQuarantined reports whether a file of that name was set aside earlier.
func (s *memory) hasQuarantined(name string) bool {
	for _, q := range s.damaged {
		if strings.HasPrefix(path.Base(q.Name), strings.ReplaceAll(name, "/", "_")) {
			return true
		}
	}
	return false
}

// judgeBirth refuses a store that has croft's records but no birth: the birth is written
// before the first record, so half of the store is missing.
func (r *reading) judgeBirth() error {
	if r.birth != birthMissing || !r.croft {
		return nil
	}
	return node.Errorf(node.Refused, "cannot open store %s: it has records and no %s: put the file back, or an empty one for a new birth that refuses older reservations",
		r.cfg.Root, birthName)
}

// settleBirth gives the store an identity when it has none, because it is new, the seed's
// or has lost it. A copy gets a new identity.
func (s *FSStore) settleBirth(found birthState) error {
	place := placeOf(s.lock)
	if found != birthSound {
		id, err := newBirthID()
		if err != nil {
			return err
		}
		now := s.cfg.trustedNow()
		// A damaged birth isn't a new store's: it may have held AcceptsOlder = false.
		older := s.cfg.NewNode && found == birthMissing
		return s.writeBirth(func(b *birthFile) {
			*b = birthFile{ID: id, Time: now, AcceptsOlder: older, Place: place, Reserved: s.meta.sequence}
		})
	}
	b := s.meta.birth
	s.meta.sequence = max(s.meta.sequence, b.Reserved)
	if b.Place == place || b.Place == "" || place == "" {
		return nil
	}
	s.cfg.Log.Warn().Str("birth", b.ID).Msg("the store is a copy: it gets a new birth")
	if err := s.Rebirth(); err != nil {
		return err
	}
	return s.writeBirth(func(b *birthFile) { b.Place = place })
}

func binaryPlace(inode uint64, made unix.StatxTimestamp) []byte {
	out := binary.BigEndian.AppendUint64(nil, inode)
	return binary.BigEndian.AppendUint64(out, uint64(time.Unix(made.Sec, int64(made.Nsec)).UnixNano()))
}
