package store

import (
	"time"

	"github.com/croft-edge/croft/zdb/store/disk"
	"github.com/croft-edge/croft/zdb/store/format"
	"github.com/croft-edge/croft/zdb/store/index"
	"github.com/croft-edge/croft/zdb/store/wal"
)

const (
	// tailMost is how many bytes of slots may wait in memory when the index can't be written.
	tailMost = 4 << 20
	// syncEvery is how often the log is synced in the background, after writes.
	syncEvery = time.Second
)

// housekeeper schedules the work beside the clients' operations: it makes room for them, compacts in proportion to
// their writes, and starts syncs and checkpoints when they are due.
type housekeeper struct {
	cfg         *Config
	log         *wal.Log
	index       *index.Index
	writer      *writer
	reserve     *reserve
	space       *space
	compactor   *compactor
	checkpoints *checkpointer
	jobs        *jobs
	stuck       int64 // bytes in use when nothing more could be compacted
}

// prepare makes sure that n bytes can be appended to the log. data says that they are a value's: nothing
// else may use the reserve.
func (k *housekeeper) prepare(n int64, data bool) error {
	w := k.writer
	if w.broken != nil {
		return w.broken
	}
	if w.failed != nil {
		return w.failed
	}
	if buffered := int64(len(k.log.Buf)); buffered > 0 && (buffered+n > wal.MaxBuffer || !k.log.Fits(n)) {
		if err := w.commit(nil); err != nil {
			return err
		}
	}
	if data && len(k.index.Tail) > tailMost {
		if err := k.index.WriteTail(); err != nil {
			return err
		}
	}
	if err := k.relieve(n); err != nil && (data || !disk.IsFull(err)) {
		return err
	}
	if data {
		if err := k.admit(); err != nil {
			return err
		}
	}
	if err := k.reserve.room(n, data); err != nil {
		return err
	}
	w.begin(n)
	return nil
}

// admit says whether a value may be taken: only when the reserve is whole, and the next slots have room.
func (k *housekeeper) admit() error {
	r := k.reserve
	if r.blind {
		return nil
	}
	switch {
	case r.gate.full != nil && k.cfg.now().Before(r.gate.retry):
		return r.gate.full
	case r.gate.full != nil:
		if err := k.loosen(); err != nil {
			return err
		}
	case !r.whole():
		begun := k.cfg.now()
		if err := r.refill(); err != nil {
			return r.gate.closeIf(err, begun)
		}
	}
	begun := k.cfg.now()
	if err := r.supported(k.index.SetAside(k.index.Next)); err != nil {
		return r.gate.closeIf(err, begun)
	}
	return nil
}

// loosen takes values again if there is room.
func (k *housekeeper) loosen() error {
	r, begun := k.reserve, k.cfg.now()
	err := k.writer.commit(nil)
	if k.jobs.await(); err == nil && r.spare.bytes == 0 && k.checkpoints.wanted && k.writer.broken == nil {
		err = k.checkpoints.write() // it was promised the spare's room
	}
	if err == nil {
		err = r.refill()
	}
	if err == nil && k.log.Active != nil {
		err = r.extend(format.SegmentHeaderSize + format.HeadMost)
	}
	if err != nil {
		return r.gate.close(err, begun)
	}
	r.gate.open()
	return nil
}

// relieve makes room for n bytes when the store takes nearly all the disk that it may; that
// takes a while.
func (k *housekeeper) relieve(n int64) error {
	limits := k.space.limits
	if limits.size == 0 || k.space.used()+n <= limits.hard() || k.space.used() < k.stuck+k.log.SegmentSize/4 {
		return nil
	}
	if err := k.writer.commit(nil); err != nil {
		return err
	}
	k.jobs.await()
	for k.space.used()+n > limits.hard() && k.writer.broken == nil {
		before := k.space.used()
		for k.compactor.run(1 << 30) {
		}
		if err := k.writer.commit(nil); err != nil {
			return err
		}
		k.jobs.await()
		if err := k.checkpoints.write(); err != nil {
			return err
		}
		k.jobs.await()
		if k.space.used() >= before {
			k.stuck = k.space.used()
			return nil
		}
	}
	return k.writer.broken
}

// flush does Store.Flush.
func (k *housekeeper) flush() error {
	w := k.writer
	written := len(k.log.Buf)
	if written > 0 && k.space.pressed() {
		k.compactor.run(k.compactor.budget(written))
	}
	err := w.commit(nil)
	if w.failed != nil {
		err, w.failed = w.failed, nil
	}
	if err == nil {
		err = w.settle()
	}
	if written > 0 || k.jobs.running() {
		k.tend(k.cfg.now())
	}
	return err
}

// work does Store.Work.
func (k *housekeeper) work(now time.Time, budget int) (time.Duration, error) {
	w := k.writer
	if w.broken != nil {
		return time.Minute, w.broken
	}
	if gate := k.reserve.gate; gate.full != nil && !now.Before(gate.retry) {
		_ = k.loosen() // it logs the reason
	}
	clients := len(k.log.Buf) > 0 || w.failed != nil
	busy := k.compactor.run(budget)
	err := w.commit(nil)
	if !clients {
		w.failed = nil // else it is for Flush to say so
	}
	if err == nil {
		err = w.settle()
	}
	k.tend(now)
	switch {
	case err != nil:
		return time.Second, err
	case busy:
		return 0, nil
	case k.jobs.running():
		return 10 * time.Millisecond, nil
	}
	return time.Second, nil
}

// tend starts due jobs. The batch must be written.
func (k *housekeeper) tend(now time.Time) {
	k.jobs.poll()
	if k.index.Changed() >= index.MaxChanges {
		k.jobs.await()
		k.checkpoints.pause = time.Time{}
	}
	if k.jobs.running() || k.writer.broken != nil {
		return
	}
	switch {
	case k.checkpoints.due(now):
		if err := k.checkpoints.begin(now); err != nil {
			k.cfg.Log.Error().Err(err).Str("dir", k.cfg.IndexDir).Msg("cannot write a checkpoint, trying again")
			k.checkpoints.pause = now.Add(pauseAfterError)
		}
	case k.writer.unsynced && now.Sub(k.writer.synced) >= syncEvery:
		k.sync(now)
	}
}

// sync syncs the log in the background.
func (k *housekeeper) sync(now time.Time) {
	run, end := k.writer.syncLater(now)
	k.jobs.start(run, func(err error) {
		if err != nil {
			k.writer.fail(err)
			return
		}
		k.writer.durable = max(k.writer.durable, end)
	})
}

// close flushes the batch, and writes a checkpoint unless the index is damaged.
func (k *housekeeper) close() error {
	err := k.flush()
	k.jobs.await()
	if c := k.checkpoints; k.writer.broken == nil && err == nil && !c.distrusted && c.changed() {
		err = c.write()
	}
	return err
}
