package store

import (
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/index"
)

// writer brings batches to the disk. After a failed write the batch is undone; after a failed
// sync nothing is written any more, because the disk's content is unknown.
type writer struct {
	cfg    *Config
	batch  *batch
	damage *damage
	gate   *gate
	boot   uint64 // the machine's start

	failed error // this round can't be written
	broken error // nothing may be written any more

	written  int64        // bytes of the log that were written since the store was opened
	unsynced bool         // the log was written since the last sync
	synced   time.Time    // when the last sync began
	durable  format.Place // all of the log before it is on disk
}

// begin goes to a new segment when n bytes don't fit into the active one.
func (w *writer) begin(n int64) { w.batch.log.Begin(n, w.header) }

func (w *writer) header(h *format.SegmentHeader) {
	h.State, h.Next = w.batch.files.FileState, w.batch.index.Next
	h.Boot, h.Synced, h.SuspectBelow = w.boot, w.durable, w.damage.suspectBelow
}

// commit writes the batch, and extra behind it, to the log. If that fails the batch is undone.
func (w *writer) commit(extra []byte) error {
	b := w.batch
	if len(b.log.Buf) == 0 && len(extra) == 0 {
		b.sync() // the compactor may have gone on without writing
		return nil
	}
	w.written += int64(len(b.log.Buf) + len(extra))
	w.unsynced = true
	if err := b.log.Write(extra); err != nil {
		b.rollback()
		if disk.IsFull(err) {
			err = w.gate.close(err, w.cfg.now())
		}
		w.failed = errors.Wrapf(err, "cannot write to store %s", w.cfg.Dir)
		return w.failed
	}
	b.committed()
	if len(b.index.Tail) >= index.TailWrite {
		if err := b.index.WriteTail(); err != nil {
			w.cfg.Log.Error().Err(err).Str("dir", w.cfg.IndexDir).Msg("cannot write the index, trying again")
		}
	}
	return nil
}

// settle syncs written data, with Config.Sync. A background sync isn't enough: it may not have
// completed yet.
func (w *writer) settle() error {
	if w.broken != nil || !w.cfg.Sync || !w.unsynced {
		return w.broken
	}
	if err := w.batch.log.Sync(); err != nil {
		w.fail(err)
		return w.broken
	}
	w.durable = w.batch.log.End()
	w.unsynced = false
	return nil
}

// syncLater answers a function for another goroutine that syncs all that was written until now.
func (w *writer) syncLater(now time.Time) (run func() error, end format.Place) {
	w.synced, w.unsynced = now, false
	return w.batch.log.SyncLater(), w.batch.log.End()
}

// fail ends all writing after a sync that failed: another sync may say that all is well.
func (w *writer) fail(err error) {
	w.broken = errors.Wrapf(err, "cannot write to store %s until it is opened again", w.cfg.Dir)
	w.cfg.Log.Error().Err(err).Str("dir", w.cfg.Dir).Msg("the disk lost writes; the store only reads from now on")
}
