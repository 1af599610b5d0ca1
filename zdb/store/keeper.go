package store

import (
	"time"
)

// keeper is what runs beside the event loop for a store: one job at a time.
type keeper struct {
	job             *job
	unsynced        bool      // the log was written since the last sync
	synced          time.Time // when the last sync began
	at              place     // where the last checkpoint's log ended
	written         int64     // bytes of the log that were written since the store was opened
	atNext          uint64    // the number of the next slot then
	since           int64     // what that was at the last checkpoint
	pause           time.Time // no checkpoint before this: the last failed
	wanted          bool      // a checkpoint is wanted soon
	marked          time.Time // when the last checkpoint began
	kills           int64     // bytes of the file of kills
	stuck           int64     // bytes in use when nothing more could be cleaned
	checkpointBytes int64
	leaving         int64 // bytes of files that are being removed
	killsMin        int64 // bytes it had when it was last written whole
}

type job struct {
	done   chan error
	finish func(error)
}

const (
	syncEvery       = time.Second
	checkpointEvery = time.Minute // when something was written
	pauseAfterError = 5 * time.Second
	// checkpointLog is how much log is written between two checkpoints, and so
	// read at most when the store is opened after a crash.
	checkpointLog = 64 << 20
	// overlayWant and overlayMost are how many changed slots are kept in memory before a
	// checkpoint is wanted, and waited for.
	overlayWant = 32 << 10
	overlayMost = 256 << 10
)

// start runs a job; finish is called by tend or await.
func (s *Store) start(run func() error, finish func(error)) {
	j := &job{done: make(chan error, 1), finish: finish}
	s.job = j
	s.cfg.Background(func() { j.done <- run() })
}

// poll ends the job if it is done.
func (s *Store) poll() {
	if s.job == nil {
		return
	}
	select {
	case err := <-s.job.done:
		s.end(err)
	default:
	}
}

// await waits for the job, and for those that follow from it.
func (s *Store) await() {
	for s.job != nil {
		s.end(<-s.job.done)
	}
}

func (s *Store) end(err error) {
	j := s.job
	s.job = nil
	j.finish(err)
}

// tend begins what is due. Everything must have been written.
func (s *Store) tend(now time.Time) {
	s.poll()
	if len(s.index.fresh.at) >= overlayMost {
		s.await()
		s.pause = time.Time{}
	}
	if s.job != nil || s.broken != nil {
		return
	}
	switch {
	case s.due(now):
		if err := s.checkpoint(now); err != nil {
			s.cfg.Log.Error().Err(err).Str("dir", s.cfg.IndexDir).Msg("cannot write a checkpoint, trying again")
			s.pause = now.Add(pauseAfterError)
		}
	case s.unsynced && now.Sub(s.synced) >= syncEvery:
		s.sync(now)
	}
}

// due says whether it is time for a checkpoint.
func (s *Store) due(now time.Time) bool {
	if s.distrusted || now.Before(s.pause) || !s.changed() {
		return false
	}
	return s.wanted || len(s.index.fresh.at) >= overlayWant ||
		s.written-s.since >= min(checkpointLog, 2*s.wal.most) || now.Sub(s.marked) >= checkpointEvery
}

// changed says whether there is something that the last checkpoint doesn't have.
func (s *Store) changed() bool {
	return s.wanted || s.at != s.wal.end()
}

// sync makes the log last.
func (s *Store) sync(now time.Time) {
	s.synced, s.unsynced = now, false
	run, end := s.syncing(), s.wal.end()
	s.start(run, func(err error) {
		if err != nil {
			s.unsure(err)
			return
		}
		s.lasting = max(s.lasting, end)
	})
}

// syncing answers what makes last all that is written to the log until now.
func (s *Store) syncing() func() error {
	var paths []string
	for _, seg := range s.wal.order {
		if seg.dirty {
			paths = append(paths, seg.path)
			seg.dirty = false
		}
	}
	created, disk, dir := s.wal.created, s.disk, s.cfg.Dir
	s.wal.created = false
	return func() error {
		for _, p := range paths {
			if err := syncFile(disk, p); err != nil {
				return err
			}
		}
		if created {
			return disk.SyncDir(dir)
		}
		return nil
	}
}

func syncFile(d disk, path string) error {
	f, err := d.Open(path, false)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
