package store

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// quarantineFolder holds damaged files. causeSuffix is of the file beside one
// that says what was wrong.
const (
	quarantineFolder = "quarantine"
	causeSuffix      = ".cause"
)

// load reads the whole store. Nobody else has it yet.
func (s *FSStore) load() error {
	if err := s.loadQuarantine(); err != nil {
		return err
	}
	if err := s.loadRecords(); err != nil {
		return err
	}
	if err := s.loadNetworks(); err != nil {
		return err
	}
	if _, err := s.getJSON(cursorName, &s.meta.cursor); err != nil {
		return err
	}
	if _, err := s.getJSON(clockName, &s.meta.mark); err != nil {
		return err
	}
	return s.loadBirth()
}

func (s *FSStore) loadRecords() error {
	names, err := s.disk.List("")
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == lockName {
			continue
		}
		id, r, err := s.readRecord(name)
		if errors.Is(err, errNewer) {
			return node.WithKind(node.Refused, errors.Wrapf(err, "cannot open store %s: %s", s.cfg.Root, name))
		}
		if err != nil {
			s.setAside(name, id.String(), err)
			continue
		}
		s.index.put(id, r)
		if r.Result != nil && r.Result.Sequence > s.meta.sequence {
			s.meta.sequence = r.Result.Sequence
		}
	}
	return nil
}

func (s *FSStore) readRecord(name string) (workload.ID, Record, error) {
	id, err := workload.ParseID(name)
	if err != nil || id.String() != name {
		return id, Record{}, errors.New("its name isn't a reservation's ID")
	}
	file, err := s.disk.Get(name)
	if err != nil {
		return id, Record{}, err
	}
	r, err := decode(file)
	if err != nil {
		return id, Record{}, err
	}
	says, err := check(r)
	if err != nil {
		return id, Record{}, err
	}
	if says != id {
		return id, Record{}, errors.Errorf("it is the record of %s", says)
	}
	return id, r, nil
}

// loadBirth reads the store's identity, or makes it. A store without one is
// new, or was the seed's, or has lost it.
func (s *FSStore) loadBirth() error {
	var b birthFile
	known, err := s.getJSON(birthName, &b)
	if err != nil {
		return err
	}
	place := s.lock.place()
	if !known {
		id, err := newBirthID()
		if err != nil {
			return err
		}
		now := s.trustedNow()
		// Damaged isn't new: what was in it may have been AcceptsOlder = false.
		older := s.cfg.NewNode && !s.hasDamaged(birthName)
		return s.writeBirth(func(b *birthFile) {
			*b = birthFile{ID: id, Time: now, AcceptsOlder: older, Place: place, Reserved: s.meta.sequence}
		})
	}
	s.meta.birth = b
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

func (s *FSStore) hasDamaged(name string) bool {
	for _, q := range s.damaged {
		if strings.HasPrefix(path.Base(q.Name), strings.ReplaceAll(name, "/", "_")) {
			return true
		}
	}
	return false
}

// setAside moves a damaged file to the quarantine. Where even that can't be
// done it stays, unread.
func (s *FSStore) setAside(name, id string, cause error) {
	q := Quarantine{Name: name, ID: id, Cause: cause.Error()}
	target := s.freeName(strings.ReplaceAll(name, "/", "_"))
	if err := s.disk.Move(name, target); err != nil {
		s.cfg.Log.Error().Err(err).Str("name", name).Msg("a damaged file can't be set aside")
	} else {
		q.Name = target
		if err := s.putJSON(target+causeSuffix, q); err != nil {
			s.cfg.Log.Error().Err(err).Str("name", name).Msg("the cause of a damaged file can't be kept")
		}
	}
	s.damaged = append(s.damaged, q)
	s.cfg.Log.Error().Str("id", id).Str("name", q.Name).Str("err", q.Cause).Msg("a damaged file of the store was set aside")
}

// freeName finds a name in the quarantine that nothing has.
func (s *FSStore) freeName(name string) string {
	target := quarantineFolder + "/" + name
	taken := map[string]bool{}
	for _, q := range s.damaged {
		taken[q.Name] = true
	}
	for i := 1; taken[target]; i++ {
		target = quarantineFolder + "/" + name + "." + strconv.Itoa(i)
	}
	return target
}

// loadQuarantine reads what was set aside before.
func (s *FSStore) loadQuarantine() error {
	names, err := s.disk.List(quarantineFolder)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, causeSuffix) {
			continue
		}
		q := Quarantine{Name: name, Cause: "not known any more"}
		if file, err := s.disk.Get(name + causeSuffix); err == nil {
			if body, err := open(file); err == nil {
				_ = json.Unmarshal(body, &q)
			}
		}
		q.Name = name
		s.damaged = append(s.damaged, q)
	}
	return nil
}

func binaryPlace(inode uint64, made unix.StatxTimestamp) []byte {
	out := binary.BigEndian.AppendUint64(nil, inode)
	return binary.BigEndian.AppendUint64(out, uint64(time.Unix(made.Sec, int64(made.Nsec)).UnixNano()))
}

// networkName is where the newest of a network is remembered.
func networkName(key NetworkKey) string { return networkFolder + "/" + hex.EncodeToString(key[:]) }
