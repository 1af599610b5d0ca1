package store

import (
	"path/filepath"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Room on the disk is set aside before it is written. Beside the active segment's there is a reserve that values never
// take: a file that becomes the next segment when the disk is full, so that nobody else gets what
// it holds. Deletions and the copies of cleaning go there. It is filled again, and values are taken again, when
// cleaning, or somebody else, has made room. The spare is a file in the index' folder that is renamed
// into the next checkpoint when that finds no room; what else checkpoints write has room set aside in its files.
const (
	reserveFile  = "reserve"
	spareFile    = "spare"
	reserveLeast = 64 << 10
	spareMost    = 1 << 20
	allocLeast   = 16 << 10
	allocMost    = 1 << 20
	// retryShare is the share of the time that asking a full disk for room may take.
	retryShare = 20
)

// reserve is what is set aside.
type reserve struct {
	have  int64 // bytes that the reserve has
	spare int64 // bytes that the spare has
	// killsRoom is how far the file of kills is set aside.
	killsRoom int64
	claimed   bool      // what an earlier process left was looked for
	tight     error     // why no values are taken now, nil when they are
	retry     time.Time // when that is tried again
	blind     bool      // the file system can't set anything aside
}

// errNoRoom ends cleaning for now: what it would copy has no room.
var errNoRoom = errors.New("no room to clean")

// reserveWant is how many bytes the reserve should have: as many as the log, up to a segment, by powers of two.
func (s *Store) reserveWant() int64 {
	most := s.wal.most
	want := min(reserveLeast, most)
	for want < s.wal.bytes && want < most {
		want *= 2
	}
	return min(want, most)
}

// spareWant is how many bytes the spare should have: what a file system sets aside for its own when it renames under a
// quota is near a MiB.
func (s *Store) spareWant() int64 {
	return min(s.reserveWant(), s.wal.most/8, spareMost) + 2*s.checkpointBytes
}

// taken is what is set aside of the disk and not used, in bytes.
func (s *Store) taken() int64 {
	n := s.have + s.spare + max(0, s.killsRoom-s.kills) + s.index.ahead
	if a := s.wal.active; a != nil {
		n += max(0, s.wal.alloc-a.size-int64(len(s.wal.buf)))
	}
	return n
}

// room sets n bytes of the log aside; data says that they are a value's, which may not use the reserve.
func (s *Store) room(n int64, data bool) error {
	if s.blind {
		return nil
	}
	if data {
		if err := s.forData(); err != nil {
			return err
		}
		begun := s.cfg.now()
		if err := s.cannot(s.index.setAside()); err != nil {
			return s.tightenIf(err, begun)
		}
	}
	if !s.wal.fits(n) {
		s.wal.roll()
	}
	n += segmentHeader
	if s.wal.active.size+int64(len(s.wal.buf))+n <= s.wal.alloc {
		return nil
	}
	begun := s.cfg.now()
	err := s.extend(n)
	switch {
	case err == nil || !isFull(err):
		return err
	case data:
		return s.tighten(err, begun)
	}
	if e := s.useReserve(n); e != nil {
		return errors.Wrapf(err, "%s; its reserve is used up: %s", ErrDiskFull, e)
	}
	return nil
}

// extend sets n bytes behind the log's end aside, and some more if it can.
func (s *Store) extend(n int64) error {
	w := s.wal
	end := w.active.size + int64(len(w.buf)) + n
	if end <= w.alloc || s.blind {
		return nil
	}
	f, err := s.shared.get(&w.active.handle, true)
	if err != nil {
		return err
	}
	w.created = w.created || w.active.size == 0
	from := max(w.alloc, w.active.size)
	step := max(allocLeast, min(w.active.size/8, allocMost))
	for _, to := range [2]int64{min(max(end+step, end), max(end, w.most)), end} {
		to = (to + 4095) &^ 4095
		if err = f.Allocate(from, to-from); err == nil {
			w.alloc = to
			return nil
		}
	}
	return s.cannot(err)
}

// cannot notes that a file system can't set anything aside.
func (s *Store) cannot(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		s.blind = true
		return nil
	}
	return err
}

// forData says whether values may be taken: only when the reserve is whole.
func (s *Store) forData() error {
	if s.tight != nil {
		if s.cfg.now().Before(s.retry) {
			return s.tight
		}
		return s.loosen()
	}
	if s.have >= s.reserveWant() {
		return nil
	}
	begun := s.cfg.now()
	if err := s.refill(); err != nil {
		return s.tightenIf(err, begun)
	}
	return nil
}

// tightenIf ends it when an error says that the disk is full.
func (s *Store) tightenIf(err error, since time.Time) error {
	if isFull(err) {
		return s.tighten(err, since)
	}
	return err
}

// tighten ends the taking of values until there is room.
func (s *Store) tighten(err error, since time.Time) error {
	if s.tight == nil {
		s.cfg.Log.Error().Err(err).Str("dir", s.cfg.Dir).Msg("the disk is full: nothing but deletions is written until there is room")
	}
	s.tight = fullError{errors.Wrapf(err, "cannot write to store %s", s.cfg.Dir)}
	now := s.cfg.now()
	s.retry = now.Add(now.Sub(since) * retryShare)
	return s.tight
}

// loosen takes values again if there is room.
func (s *Store) loosen() error {
	begun := s.cfg.now()
	err := s.commit(nil)
	if s.await(); err == nil && s.spare == 0 && s.wanted && s.broken == nil {
		err = s.checkpointNow() // it was promised the spare's room
	}
	if err == nil {
		err = s.refill()
	}
	if err == nil && s.wal.active != nil {
		err = s.extend(segmentHeader + headMost)
	}
	if err != nil {
		return s.tighten(err, begun)
	}
	s.tight = nil
	s.cfg.Log.Info().Str("dir", s.cfg.Dir).Msg("the disk has room again")
	return nil
}

// fullError is ErrDiskFull with its reason.
type fullError struct{ error }

func (e fullError) Unwrap() error        { return e.error }
func (e fullError) Is(target error) bool { return target == ErrDiskFull }

// refill makes the reserve and the spare whole.
func (s *Store) refill() error {
	if s.blind {
		return nil
	}
	s.claim()
	var err error
	if s.spare, err = s.setAside(filepath.Join(s.cfg.IndexDir, spareFile), s.spare, s.spareWant()); err != nil {
		return s.cannot(err)
	}
	kills := filepath.Join(s.cfg.Dir, killsFile)
	if s.killsRoom, err = s.setAside(kills, s.killsRoom, s.kills+min(reserveLeast, s.wal.most/16)); err != nil {
		return s.cannot(err)
	}
	want := s.reserveWant()
	s.have, err = s.setAside(s.reservePath(), s.have, want)
	if isFull(err) {
		s.refillPart(want)
	}
	return s.cannot(err)
}

// refillPart gives the reserve as much as there is, so that the active segment can be cleaned, if it is worth it. What that
// has set aside and doesn't need is given for it.
func (s *Store) refillPart(want int64) {
	part := func() {
		for n, err := want/2, error(unix.ENOSPC); err != nil && n > s.have && n >= reserveLeast; n /= 2 {
			s.have, err = s.setAside(s.reservePath(), s.have, n)
		}
	}
	a := s.wal.active
	if part(); a == nil || len(s.wal.buf) > 0 {
		return
	}
	if need := a.live + segmentHeader + allocLeast; s.have < need && 2*a.live < a.size && s.wal.alloc-a.size > 2*need {
		s.wal.trim()
		part()
	}
}

func (s *Store) reservePath() string { return filepath.Join(s.cfg.Dir, reserveFile) }

func (s *Store) setAside(path string, has, want int64) (int64, error) {
	if has >= want {
		return has, nil
	}
	f, err := s.disk.Open(path, true)
	if err != nil {
		return has, err
	}
	defer f.Close()
	if err := f.Allocate(0, want); err != nil {
		return has, err
	}
	return want, nil
}

// claim takes over the reserve that an earlier process left.
func (s *Store) claim() {
	if s.claimed {
		return
	}
	s.claimed = true
	for want := s.reserveWant(); want >= 4096 && s.have == 0; want /= 2 {
		f, err := s.disk.Open(s.reservePath(), false)
		if err != nil {
			return
		}
		if f.Allocate(0, want) == nil {
			s.have = want
		}
		f.Close()
	}
}

// useReserve makes the reserve the active segment, for n bytes at least. What was collected is written before.
func (s *Store) useReserve(n int64) error {
	s.claim()
	if s.have < n {
		return errors.Errorf("it has %d bytes", s.have)
	}
	if err := s.commit(nil); err != nil {
		return err
	}
	w := s.wal
	if old := w.active; old != nil && old.size == 0 {
		w.remove(old)
		w.active = nil
		_ = s.disk.Remove(old.path) // an empty segment goes at the next start
	}
	seg := newSegment(w.disk, w.dir, w.last+1)
	err := s.disk.Rename(s.reservePath(), seg.path)
	if isFull(err) && s.freeSpare() {
		err = s.disk.Rename(s.reservePath(), seg.path)
	}
	if err != nil {
		return err
	}
	w.trim()
	w.add(seg)
	w.ended = false
	w.active, w.alloc, w.created = seg, s.have, true
	s.have = 0
	if s.tight == nil {
		_ = s.tighten(unix.ENOSPC, s.cfg.now())
	}
	return nil
}

// canMove says whether so many bytes can be copied, and sets them aside.
func (s *Store) canMove(n int64) bool {
	n += segmentHeader
	if s.blind || s.wal.active != nil && s.wal.fits(n) && s.extend(n) == nil {
		return true
	}
	return s.tight == nil || s.have >= n && s.useReserve(n) == nil
}

// freeSpare gives the spare's room to a checkpoint that found none; false if there is none left.
func (s *Store) freeSpare() bool {
	path := filepath.Join(s.cfg.IndexDir, spareFile)
	if s.spare = 0; s.disk.Remove(path) != nil {
		return false
	}
	if s.tight == nil {
		_ = s.tighten(unix.ENOSPC, s.cfg.now())
	}
	return true
}
