package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/store/durable"
)

// The store's files beside its records.
const (
	metaFolder = "meta"
	birthName  = metaFolder + "/birth"
	cursorName = metaFolder + "/cursor"
	clockName  = metaFolder + "/clock"
)

// sequenceBlock is how many sequence numbers one write reserves. A restart continues after
// the reserved ones: no number is given twice, even when the record that held the largest
// is damaged or buried.
const sequenceBlock = 1024

// Birth is a store's identity. A node that has lost its store gets a new one.
type Birth struct {
	// ID is random, hex.
	ID string
	// Time is when the store was made, by a clock that doesn't rest on the explorer alone
	// (see Config.BirthClock); zero while unknown. Reservations created earlier are
	// accepted only when AcceptsOlder.
	Time time.Time
}

// birthFile is the content of meta/birth.
type birthFile struct {
	ID           string    `json:"id"`
	Time         time.Time `json:"time,omitzero"`
	AcceptsOlder bool      `json:"accepts_older"`
	// Place tells a copy from the original (see placeOf).
	Place string `json:"place,omitempty"`
	// Follows are the IDs of earlier births of this same store, newest first, at most mostAncestors.
	Follows []string `json:"follows,omitempty"`
	// Reserved is the largest sequence number that may have been given.
	Reserved int64 `json:"reserved"`
}

// mostAncestors bounds the earlier births that a store remembers.
const mostAncestors = 16

// meta is the node's own state, in memory.
type meta struct {
	birth birthFile
	// sequence is the last sequence number given.
	sequence int64
	cursor   explorer.Cursor
	mark     markFile
}

// markFile is the content of meta/clock.
type markFile struct {
	clock.Mark
	// Birth is the ID of the store's birth when the mark was recorded.
	Birth string `json:"birth,omitempty"`
}

// Birth returns the store's identity.
func (s *memory) Birth() Birth {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return Birth{ID: s.meta.birth.ID, Time: s.meta.birth.Time}
}

// Ancestors are the IDs of earlier births of this store, newest first: a store that was restored, or copied, follows the one that it was. A
// store that was made anew follows none.
func (s *memory) Ancestors() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.meta.birth.Follows)
}

// AcceptsOlder reports whether reservations created before Birth are accepted.
func (s *memory) AcceptsOlder() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.meta.birth.AcceptsOlder
}

// AcceptOlder makes the store accept reservations created before its birth: the operator
// asserts that none of them ended before the previous store was lost.
func (s *FSStore) AcceptOlder() error {
	return s.changeBirth(func(b *birthFile) { b.AcceptsOlder = true })
}

// RefuseOlder undoes AcceptOlder: from then on only a reservation's first end (without
// renewals) counts, and records kept past that end may be forgotten. Refused while the
// birth has no date: no reservation could be accepted any more.
func (s *FSStore) RefuseOlder() error {
	if s.Birth().Time.IsZero() {
		return node.Errorf(node.Refused, "cannot refuse older reservations: the time of the store's birth isn't known yet, run an NTP client first")
	}
	return s.changeBirth(func(b *birthFile) { b.AcceptsOlder = false })
}

// Rebirth gives the store a new identity after a restore from a backup, which lacks
// everything accepted or ended since. The poll starts again from the beginning, and
// reservations older than now need AcceptOlder.
func (s *FSStore) Rebirth() error {
	id, err := newBirthID()
	if err != nil {
		return err
	}
	now := s.cfg.trustedNow()
	if err := s.SetCursor(explorer.Cursor{}); err != nil {
		return err
	}
	return s.changeBirth(func(b *birthFile) {
		past := append([]string{b.ID}, b.Follows...)
		b.Follows = past[:min(len(past), mostAncestors)]
		b.ID, b.Time, b.AcceptsOlder = id, now, false
	})
}

// Cursor is how far the node has read the explorer's stream; zero at first.
func (s *memory) Cursor() explorer.Cursor {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.meta.cursor
}

// SetCursor stores how far the node has read. An unchanged cursor isn't written.
func (s *FSStore) SetCursor(c explorer.Cursor) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.Cursor() == c {
		return nil
	}
	if err := s.putJSON(cursorName, c); err != nil {
		return err
	}
	s.change(func() { s.meta.cursor = c })
	return nil
}

// Mark is the last recorded clock mark; zero when there is none. A mark from before a rebirth may be
// another machine's, or an old one of this machine: its boot IDs are left out.
func (s *memory) Mark() clock.Mark {
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := s.meta.mark.Mark
	if b := s.meta.mark.Birth; b != "" && b != s.meta.birth.ID {
		m.BootID, m.Uptime.BootID = "", ""
	}
	return m
}

// SetMark records a mark. The first mark that more than the explorer vouches for also dates
// an undated birth: an explorer that gives an early time must not make ended reservations
// acceptable to a node that doesn't remember them. It serves as clock.Config.Record.
func (s *FSStore) SetMark(m clock.Mark) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	birth := s.Birth()
	file := markFile{Mark: m, Birth: birth.ID}
	if err := s.putJSON(clockName, file); err != nil {
		return err
	}
	s.change(func() { s.meta.mark = file })
	if !birth.Time.IsZero() || !m.Vouched() {
		return nil
	}
	return s.writeBirth(func(b *birthFile) { b.Time = m.Time })
}

// nextSequence returns the sequence number of the next result. The caller holds writing.
func (s *FSStore) nextSequence() (int64, error) {
	s.mu.RLock()
	next, reserved := s.meta.sequence+1, s.meta.birth.Reserved
	s.mu.RUnlock()
	if next > reserved {
		if err := s.writeBirth(func(b *birthFile) { b.Reserved = next + sequenceBlock - 1 }); err != nil {
			return 0, err
		}
	}
	s.change(func() { s.meta.sequence = next })
	return next, nil
}

func (s *FSStore) changeBirth(edit func(*birthFile)) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.writeBirth(edit)
}

// writeBirth writes an edited birth file. The caller holds writing.
func (s *FSStore) writeBirth(edit func(*birthFile)) error {
	s.mu.RLock()
	b := s.meta.birth
	s.mu.RUnlock()
	edit(&b)
	if err := s.putJSON(birthName, b); err != nil {
		return err
	}
	s.change(func() { s.meta.birth = b })
	return nil
}

// change edits the memory under its lock.
func (s *memory) change(edit func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit()
}

// trustedNow is the time that dates a birth, zero while the clock can't be trusted.
func (c Config) trustedNow() time.Time {
	at := c.BirthClock
	if at == nil {
		at = c.Clock
	}
	now, trusted := at.Now()
	if !trusted {
		return time.Time{}
	}
	return now.UTC()
}

func (s *FSStore) putJSON(name string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return node.WithKind(node.Internal, errors.Wrapf(err, "cannot write %s", name))
	}
	return s.disk.Put(durable.Object{Name: name, Data: seal(body)})
}

// newBirthID is 16 random bytes, hex.
func newBirthID() (string, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return "", node.WithKind(node.Internal, errors.Wrap(err, "cannot make a birth ID"))
	}
	return hex.EncodeToString(b), nil
}

// placeOf tells a store from its copies by its lock file's inode and creation time, which
// no copy can keep (a snapshot of the whole disk does). Empty without a lock, or where the
// file system doesn't tell.
func placeOf(l *filelock.Lock) string {
	if l == nil {
		return ""
	}
	var st unix.Statx_t
	err := unix.Statx(l.Fd(), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return ""
	}
	return hex.EncodeToString(binaryPlace(st.Ino, st.Btime))
}
