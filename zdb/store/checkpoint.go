package store

import (
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/index"
	"github.com/croft-edge/croft/zdb/store/tombstones"
	"github.com/croft-edge/croft/zdb/store/wal"
)

// jobs runs one function at a time beside the event loop.
type jobs struct {
	background func(f func())
	done       chan error  // nil: nothing is running
	finish     func(error) // called by poll or await when it has ended
}

// start runs a function; finish may start the next.
func (j *jobs) start(run func() error, finish func(error)) {
	done := make(chan error, 1)
	j.done, j.finish = done, finish
	j.background(func() { done <- run() })
}

func (j *jobs) running() bool { return j.done != nil }

// poll ends the job if it is done.
func (j *jobs) poll() {
	if j.done == nil {
		return
	}
	select {
	case err := <-j.done:
		j.end(err)
	default:
	}
}

// await waits for the job, and for those that follow from it.
func (j *jobs) await() {
	for j.done != nil {
		j.end(<-j.done)
	}
}

func (j *jobs) end(err error) {
	j.done = nil
	j.finish(err)
}

// schedule is when the next checkpoint is due.
type schedule struct {
	at     format.Place // where the last checkpoint's log ended
	next   uint64       // the number of the next slot then
	since  int64        // bytes of log that were written before it
	began  time.Time    // when it began
	pause  time.Time    // no checkpoint before this: the last failed
	wanted bool         // a checkpoint is wanted soon
}

const (
	checkpointEvery = time.Minute // when something was written
	pauseAfterError = 5 * time.Second
	// checkpointLog is how much log is written between two checkpoints, and so
	// read at most when the store is opened after a crash.
	checkpointLog = 64 << 20
)

// checkpointer writes checkpoints: it syncs the log, adds tombstones, brings the index' files up to the
// log's end, notes all that in the file checkpoint, and then removes compacted segments.
type checkpointer struct {
	*schedule
	cfg        *Config
	disk       *disk.Overflow
	jobs       *jobs
	writer     *writer
	index      *index.Index
	tombstones *tombstones.File
	compaction *compaction
	reserve    *reserve
	space      *space
	distrusted bool // the index is damaged: no checkpoint may be written
}

// plan is one checkpoint. run is on another goroutine and touches only plan's fields.
type plan struct {
	disk       disk.Disk
	path       string // of the checkpoint's file
	spare      string // of the spare; empty: there is none
	sync       func() error
	tombstones *tombstones.Write
	taken      int // of compaction.dead
	index      *index.Flush
	image      format.Checkpoint
	victims    []*wal.Segment
	written    int64 // writer.written when it was planned

	bytes     int64 // of the checkpoint's file
	spareUsed bool
}

func (c *checkpointer) path() string { return filepath.Join(c.cfg.IndexDir, format.CheckpointFile) }

// due says whether it is time for a checkpoint.
func (c *checkpointer) due(now time.Time) bool {
	if c.distrusted || now.Before(c.pause) || !c.changed() {
		return false
	}
	return c.wanted || c.index.Changed() >= index.WantChanges ||
		c.writer.written-c.since >= min(checkpointLog, 2*c.writer.batch.log.SegmentSize) || now.Sub(c.began) >= checkpointEvery
}

// changed says whether there is something that the last checkpoint doesn't have.
func (c *checkpointer) changed() bool {
	return c.wanted || c.at != c.writer.batch.log.End()
}

// begin begins a checkpoint. The batch must be written.
func (c *checkpointer) begin(now time.Time) error {
	if err := c.writeIndex(); err != nil {
		return err
	}
	p := c.plan(now)
	c.jobs.start(p.run, func(err error) { c.end(p, err) })
	return nil
}

// write writes a checkpoint and waits for it. The batch must be written.
func (c *checkpointer) write() error {
	c.jobs.await()
	if err := c.writeIndex(); err != nil {
		return err
	}
	for {
		p := c.plan(c.cfg.now())
		err := p.run()
		c.end(p, err)
		if !disk.IsFull(err) || c.pause != (time.Time{}) {
			return err
		}
	}
}

// writeIndex writes the slots that aren't in their files.
func (c *checkpointer) writeIndex() error {
	for {
		err := c.flushOverflow()
		if err == nil {
			err = c.index.WriteTail()
		}
		if !disk.IsFull(err) || !c.reserve.freeSpare() {
			return err
		}
	}
}

// flushOverflow writes the data that recovery found no room for.
func (c *checkpointer) flushOverflow() error {
	if c.disk.Empty() {
		return nil
	}
	if err := c.disk.Flush(); err != nil {
		return err
	}
	c.index.Reread()
	return nil
}

// plan prepares a checkpoint; later changes are for the next.
func (c *checkpointer) plan(now time.Time) *plan {
	c.wanted, c.began = false, now
	sync, _ := c.writer.syncLater(now)
	b := c.writer.batch
	b.sync()
	p := &plan{
		disk: c.disk, path: c.path(), sync: sync, taken: len(c.compaction.dead), image: c.image(),
		victims: slices.Clone(c.compaction.done), written: c.writer.written,
	}
	if c.reserve.spare.bytes > 0 {
		p.spare = c.reserve.spare.path
	}
	p.index = c.index.PlanFlush(index.PackPolicy{Pressed: c.space.crowded(), Before: c.next, Budget: c.space.limits.fixed() / 16})
	p.image.Chunks = p.index.Usage
	c.wanted = c.wanted || p.index.More // the next checkpoint shall come soon
	p.tombstones = c.planTombstones(p.victims)
	return p
}

// image is the checkpoint of the present state, without the chunks.
func (c *checkpointer) image() format.Checkpoint {
	b := c.writer.batch
	m := format.Checkpoint{
		ID: b.log.ID, Kind: b.log.Kind, Per: c.index.ChunkSlots, At: b.log.End(),
		State: b.files.FileState, Next: c.index.Next, Counters: b.ledger.Counters, SuspectBelow: c.writer.damage.suspectBelow,
	}
	for _, seg := range b.log.Order {
		if seg.Size > 0 && !slices.Contains(c.compaction.done, seg) {
			m.Segments = append(m.Segments, format.SegmentUsage{Number: seg.Number, Live: seg.Live})
		}
	}
	return m
}

func (c *checkpointer) planTombstones(victims []*wal.Segment) *tombstones.Write {
	stays := map[uint32]bool{}
	for _, seg := range c.writer.batch.log.Order {
		stays[seg.Number] = !slices.Contains(victims, seg)
	}
	var add []format.Place
	for _, at := range c.compaction.dead {
		if stays[at.Segment()] {
			add = append(add, at)
		}
	}
	return c.tombstones.Plan(add, stays)
}

func (p *plan) run() error {
	if err := p.sync(); err != nil {
		return lostWrites{err}
	}
	// Tombstones must be on disk before the segments go that said so.
	if err := p.tombstones.Run(); err != nil {
		return err
	}
	if err := p.index.Run(); err != nil {
		return err
	}
	return p.writeImage()
}

// lostWrites is a sync of the log that failed.
type lostWrites struct{ error }

// writeImage makes the checkpoint the one that counts.
func (p *plan) writeImage() error {
	b := p.image.Encode()
	p.bytes = int64(len(b))
	err := disk.WriteWhole(p.disk, p.path, b)
	if disk.IsFull(err) && p.spare != "" {
		err = p.useSpare(b)
	}
	if err != nil {
		return err
	}
	return p.disk.SyncDir(filepath.Dir(p.path))
}

// useSpare writes the checkpoint into the room that was set aside for it.
func (p *plan) useSpare(b []byte) error {
	p.spareUsed = true
	temp := p.path + disk.TempSuffix
	if err := p.disk.Rename(p.spare, temp); err != nil {
		return err
	}
	f, err := p.disk.Open(temp, false)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.WriteAt(b, nil, 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return p.disk.Rename(temp, p.path)
}

// end notes how a checkpoint went. The batch must be written.
func (c *checkpointer) end(p *plan, err error) {
	defer c.writer.batch.sync()
	if e := c.index.EndFlush(p.index, err != nil); e != nil {
		c.cfg.Log.Error().Err(e).Msg("cannot pack a file of the index")
	}
	if p.spareUsed {
		c.reserve.spare.bytes = 0
	}
	if c.tombstones.End(p.tombstones) {
		dead := &c.compaction.dead
		*dead = append((*dead)[:0], (*dead)[p.taken:]...)
	}
	if err != nil {
		c.failed(err)
		return
	}
	log := c.writer.batch.log
	c.writer.durable = max(c.writer.durable, p.image.At)
	c.at, c.next, c.since, c.reserve.checkpoint = p.image.At, p.image.Next, p.written, p.bytes
	for _, v := range p.victims {
		c.space.ledger.live -= v.Live
		c.space.leaving += v.Size
		log.Remove(v)
	}
	c.compaction.done = slices.DeleteFunc(c.compaction.done, func(v *wal.Segment) bool { return slices.Contains(p.victims, v) })
	paths, bytes := c.index.DropEmpty(p.index)
	c.space.leaving += bytes
	for _, v := range p.victims {
		paths = append(paths, v.Path)
	}
	c.remove(paths)
}

// failed plans another attempt, unless the log lost writes.
func (c *checkpointer) failed(err error) {
	var lost lostWrites
	if errors.As(err, &lost) {
		c.writer.fail(lost.error)
		return
	}
	c.cfg.Log.Error().Err(err).Str("dir", c.cfg.IndexDir).Msg("cannot write a checkpoint, trying again")
	c.pause, c.wanted = c.cfg.now().Add(pauseAfterError), true
	if disk.IsFull(err) && c.reserve.freeSpare() {
		c.pause = time.Time{}
	}
}

// remove removes files that are no longer needed.
func (c *checkpointer) remove(paths []string) {
	if len(paths) == 0 {
		return
	}
	files := c.disk
	c.jobs.start(func() error {
		for _, path := range paths {
			if err := files.Remove(path); err != nil {
				return err
			}
		}
		return nil
	}, func(err error) {
		c.space.leaving = 0
		if err != nil {
			c.cfg.Log.Error().Err(err).Msg("cannot remove a file that is no longer needed, it goes at the next start")
		}
	})
}

// distrust notes that a slot is damaged: the next start rebuilds the index.
func (c *checkpointer) distrust(slot uint64) {
	c.writer.damage.count++
	if c.distrusted {
		return
	}
	c.distrusted = true
	c.cfg.Log.Error().Uint64("slot", slot).Str("dir", c.cfg.IndexDir).
		Msg("the index is damaged; it is made again from the log at the next start")
	if err := c.disk.Remove(c.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.cfg.Log.Error().Err(err).Msg("cannot remove the checkpoint")
	}
}
