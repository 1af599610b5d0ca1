package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/store/persist"
)

// Where the store keeps what isn't a record.
const (
	metaFolder = "meta"
	birthName  = metaFolder + "/birth"
	cursorName = metaFolder + "/cursor"
	clockName  = metaFolder + "/clock"
)

// sequenceBlock is how many sequence numbers are reserved with one write. A
// restart goes on behind the reserved ones: none is ever given twice, also
// when the file that held the largest is damaged or buried.
const sequenceBlock = 1024

// Birth is a store's identity. A node that has lost its store has another one.
type Birth struct {
	// ID is random, hex.
	ID string
	// Time is when the store was made, by more than the explorer's word (see
	// Config.BirthClock); zero while no such time is known. What was created
	// before is accepted only when AcceptsOlder.
	Time time.Time
}

// birthFile is the content of meta/birth.
type birthFile struct {
	ID           string    `json:"id"`
	Time         time.Time `json:"time,omitzero"`
	AcceptsOlder bool      `json:"accepts_older"`
	// Place tells a copy from the original (see place).
	Place string `json:"place,omitempty"`
	// Reserved is the largest sequence number that may have been given.
	Reserved int64 `json:"reserved"`
}

// meta is what the store knows of the node, in memory.
type meta struct {
	birth birthFile
	// sequence is the last number given.
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

// Birth is the store's identity.
func (s *memory) Birth() Birth {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return Birth{ID: s.meta.birth.ID, Time: s.meta.birth.Time}
}

// AcceptsOlder reports whether reservations created before Birth are accepted.
func (s *memory) AcceptsOlder() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.meta.birth.AcceptsOlder
}

// AcceptOlder makes the store accept reservations created before its birth:
// the operator says that none was ended in the life that was lost.
func (s *FSStore) AcceptOlder() error {
	return s.changeBirth(func(b *birthFile) { b.AcceptsOlder = true })
}

// RefuseOlder takes AcceptOlder back: from then on a reservation's first end counts
// alone, and what was remembered past its end may be forgotten. Refused while the
// birth has no date: nothing could be accepted any more.
func (s *FSStore) RefuseOlder() error {
	if s.Birth().Time.IsZero() {
		return node.Errorf(node.Refused, "cannot refuse older reservations: the time of the store's birth isn't known yet, run an NTP client first")
	}
	return s.changeBirth(func(b *birthFile) { b.AcceptsOlder = false })
}

// Rebirth gives the store a new identity, because it was restored from a
// backup: what was accepted or ended since isn't in it. The poll starts again
// from the beginning, and what is older than now waits for AcceptOlder.
func (s *FSStore) Rebirth() error {
	id, err := newBirthID()
	if err != nil {
		return err
	}
	now := s.cfg.trustedNow()
	if err := s.SetCursor(explorer.Cursor{}); err != nil {
		return err
	}
	return s.changeBirth(func(b *birthFile) { b.ID, b.Time, b.AcceptsOlder = id, now, false })
}

// Cursor is how far the node has read the explorer's stream; zero at first.
func (s *memory) Cursor() explorer.Cursor {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.meta.cursor
}

// SetCursor remembers how far the node has read. Nothing is written when it is
// the same.
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

// Mark is what was recorded of time last; zero when nothing ever was. A mark of
// before the store was born again may be another machine's, or this one's of
// long ago: nothing is known of its boots.
func (s *memory) Mark() clock.Mark {
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := s.meta.mark.Mark
	if b := s.meta.mark.Birth; b != "" && b != s.meta.birth.ID {
		m.BootID, m.Uptime.BootID = "", ""
	}
	return m
}

// SetMark records a mark. The first one whose time is vouched for by more than
// the explorer's word also dates the store's birth, when that isn't dated yet:
// an explorer that says an early time must not make what has ended acceptable
// to a node that doesn't remember. It is what clock.Config.Record wants.
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

// nextSequence gives the next number of a result. The caller holds writing.
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

// change changes the memory.
func (s *memory) change(edit func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit()
}

// trustedNow is the time to date a birth by, or zero while the clock can't be trusted.
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
	return s.disk.Put(persist.Object{Name: name, Data: seal(body)})
}

// newBirthID is 16 random bytes, hex.
func newBirthID() (string, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return "", node.WithKind(node.Internal, errors.Wrap(err, "cannot make a birth ID"))
	}
	return hex.EncodeToString(b), nil
}

// placeOf is what a copied store doesn't share with the one it was copied from:
// the inode of its lock file and when that was made, which no copy can keep. A
// snapshot of the whole disk does keep it. Empty where the file system doesn't tell.
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
