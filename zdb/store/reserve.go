package store

import (
	"path/filepath"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/tombstones"
	"github.com/croft-edge/croft/zdb/store/wal"
)

const (
	reserveFile  = "reserve"
	spareFile    = "spare"
	reserveLeast = 64 << 10
	spareMost    = 1 << 20
	allocLeast   = 16 << 10
	// retryShare is the share of the time that asking a full disk for room may take.
	retryShare = 20
)

// errNoRoom ends compaction for now: there is no room for the copies.
var errNoRoom = errors.New("no room to clean")

// gate is whether values are taken: not while the disk is full.
type gate struct {
	cfg   *Config
	full  error     // why no values are taken now, nil when they are
	retry time.Time // when that is tried again
}

// close ends the taking of values until there is room; since is when the failed request for room began.
func (g *gate) close(err error, since time.Time) error {
	if g.full == nil {
		g.cfg.Log.Error().Err(err).Str("dir", g.cfg.Dir).Msg("the disk is full: nothing but deletions is written until there is room")
	}
	g.full = fullError{errors.Wrapf(err, "cannot write to store %s", g.cfg.Dir)}
	now := g.cfg.now()
	g.retry = now.Add(now.Sub(since) * retryShare)
	return g.full
}

// closeIf closes the gate when an error says that the disk is full.
func (g *gate) closeIf(err error, since time.Time) error {
	if disk.IsFull(err) {
		return g.close(err, since)
	}
	return err
}

// used closes the gate because room that was set aside is in use now.
func (g *gate) used() {
	if g.full == nil {
		_ = g.close(unix.ENOSPC, g.cfg.now())
	}
}

// open takes values again.
func (g *gate) open() {
	g.full = nil
	g.cfg.Log.Info().Str("dir", g.cfg.Dir).Msg("the disk has room again")
}

// fullError is ErrDiskFull with its reason.
type fullError struct{ error }

func (e fullError) Unwrap() error        { return e.error }
func (e fullError) Is(target error) bool { return target == ErrDiskFull }

// aside is a file that holds room on the disk.
type aside struct {
	disk  disk.Disk
	path  string
	bytes int64
}

// grow sets want bytes aside.
func (a *aside) grow(want int64) error {
	if a.bytes >= want {
		return nil
	}
	f, err := a.disk.Open(a.path, true)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Allocate(0, want); err != nil {
		return err
	}
	a.bytes = want
	return nil
}

// reserve sets room on the disk aside before it is written. Beside the active segment's there is a
// file that values never take: it becomes the next segment when the disk is full, so that nobody
// else gets the room that it holds. Deletions and the copies of compaction go there. It is filled
// again, and values are taken again, when compaction, or somebody else, has made room. The spare is
// a file in the index' folder that is renamed into the next checkpoint when that finds no room; all
// else that checkpoints write has room set aside in its files.
type reserve struct {
	gate       *gate
	log        *wal.Log
	tombstones *tombstones.File
	commit     func(extra []byte) error // writes the batch

	file       aside
	spare      aside
	checkpoint int64 // bytes of the last checkpoint
	claimed    bool  // a file that an earlier process left was looked for
	blind      bool  // the file system can't set anything aside
}

func newReserve(cfg *Config, d disk.Disk, g *gate, log *wal.Log, t *tombstones.File) *reserve {
	return &reserve{
		gate: g, log: log, tombstones: t,
		file:  aside{disk: d, path: filepath.Join(cfg.Dir, reserveFile)},
		spare: aside{disk: d, path: filepath.Join(cfg.IndexDir, spareFile)},
	}
}

// want is how many bytes the reserve should have: as many as the log, up to a segment, by powers of two.
func (r *reserve) want() int64 {
	most := r.log.SegmentSize
	want := min(reserveLeast, most)
	for want < r.log.Bytes && want < most {
		want *= 2
	}
	return min(want, most)
}

// spareWant is how many bytes the spare should have: a file system reserves almost a MiB for itself when it renames
// under a quota.
func (r *reserve) spareWant() int64 {
	return min(r.want(), r.log.SegmentSize/8, spareMost) + 2*r.checkpoint
}

// whole says whether the reserve has all that it should.
func (r *reserve) whole() bool { return r.file.bytes >= r.want() }

// room sets n bytes of the log aside; data says that they are a value's, which may not use the reserve.
// The active segment may be another one afterwards.
func (r *reserve) room(n int64, data bool) error {
	if r.blind {
		return nil
	}
	if !r.log.Fits(n) {
		r.log.Roll()
	}
	n += format.SegmentHeaderSize
	if r.log.Allocated(n) {
		return nil
	}
	begun := r.gate.cfg.now()
	err := r.extend(n)
	switch {
	case err == nil || !disk.IsFull(err):
		return err
	case data:
		return r.gate.close(err, begun)
	}
	if e := r.use(n); e != nil {
		return errors.Wrapf(err, "%s; its reserve is used up: %s", ErrDiskFull, e)
	}
	return nil
}

// extend sets n bytes behind the log's end aside, and some more if it can.
func (r *reserve) extend(n int64) error {
	if r.blind {
		return nil
	}
	return r.supported(r.log.Allocate(n))
}

// supported notes that a file system can't set anything aside, which is no error.
func (r *reserve) supported(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		r.blind = true
		return nil
	}
	return err
}

// refill makes the reserve and the spare whole.
func (r *reserve) refill() error {
	if r.blind {
		return nil
	}
	r.claim()
	if err := r.spare.grow(r.spareWant()); err != nil {
		return r.supported(err)
	}
	t := aside{disk: r.file.disk, path: r.tombstones.Path(), bytes: r.tombstones.Room}
	err := t.grow(r.tombstones.Bytes + min(reserveLeast, r.log.SegmentSize/16))
	if r.tombstones.Room = t.bytes; err != nil {
		return r.supported(err)
	}
	want := r.want()
	if err = r.file.grow(want); disk.IsFull(err) {
		r.refillPart(want)
	}
	return r.supported(err)
}

// refillPart gives the reserve as much as there is, so that the active segment can be compacted, if it is worth it. Room
// behind the log's end that isn't needed is given for it.
func (r *reserve) refillPart(want int64) {
	part := func() {
		for n, err := want/2, error(unix.ENOSPC); err != nil && n > r.file.bytes && n >= reserveLeast; n /= 2 {
			err = r.file.grow(n)
		}
	}
	a := r.log.Active
	if part(); a == nil || len(r.log.Buf) > 0 {
		return
	}
	if need := a.Live + format.SegmentHeaderSize + allocLeast; r.file.bytes < need && 2*a.Live < a.Size && r.log.Unused() > 2*need {
		r.log.Trim()
		part()
	}
}

// claim takes over the reserve that an earlier process left.
func (r *reserve) claim() {
	if r.claimed {
		return
	}
	r.claimed = true
	for want := r.want(); want >= 4096 && r.file.bytes == 0; want /= 2 {
		f, err := r.file.disk.Open(r.file.path, false)
		if err != nil {
			return
		}
		if f.Allocate(0, want) == nil {
			r.file.bytes = want
		}
		f.Close()
	}
}

// use makes the reserve the active segment, for n bytes at least. The batch is written before.
func (r *reserve) use(n int64) error {
	r.claim()
	if r.file.bytes < n {
		return errors.Errorf("it has %d bytes", r.file.bytes)
	}
	if err := r.commit(nil); err != nil {
		return err
	}
	err := r.log.Adopt(r.file.bytes, func(to string) error {
		err := r.file.disk.Rename(r.file.path, to)
		if disk.IsFull(err) && r.freeSpare() {
			err = r.file.disk.Rename(r.file.path, to)
		}
		return err
	})
	if err != nil {
		return err
	}
	r.file.bytes = 0
	r.gate.used()
	return nil
}

// canMove says whether so many bytes can be copied, and sets them aside.
func (r *reserve) canMove(n int64) bool {
	n += format.SegmentHeaderSize
	if r.blind || r.log.Active != nil && r.log.Fits(n) && r.extend(n) == nil {
		return true
	}
	return r.gate.full == nil || r.file.bytes >= n && r.use(n) == nil
}

// freeSpare gives the spare's room to a checkpoint that found none; false if there is none left.
func (r *reserve) freeSpare() bool {
	r.spare.bytes = 0
	if r.spare.disk.Remove(r.spare.path) != nil {
		return false
	}
	r.gate.used()
	return true
}
