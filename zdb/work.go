package zdb

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/zdb/store"
)

const (
	leastFiles = 64
	mostFiles  = 1 << 20
	// tickEvery is how often the stores that changed are looked after.
	tickEvery = time.Second
	// restAfter is how long after its last change a store is looked after no more.
	restAfter = time.Minute
	// workBudget is how many bytes a store may move at a time.
	workBudget = 256 << 10
)

// storeConfig is how the data of a namespace is opened.
func (s *Server) storeConfig(ns *namespace, d descriptor) store.Config {
	data, index := s.folders.generation(ns.number, d.Generation)
	if len(s.folders.both()) == 1 {
		index = data
	}
	return store.Config{
		Dir: data, IndexDir: index, Sequential: d.Mode == ModeSequential, Layout: s.dialect.layout,
		DataSize: s.cfg.DataSize, MaxSize: ns.limit(s), Sync: s.cfg.Sync, Memory: func(more int) bool { return s.remember(ns, more) }, Shared: s.shared, Guarded: true,
		Log: s.log.With().Int("number", ns.number).Logger(),
	}
}

// openFiles is how many files the stores may keep open: half of what the process
// may, so that there are some for clients.
func openFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return leastFiles
	}
	return int(max(leastFiles, min(limit.Cur/2, mostFiles)))
}

// Flush writes what this round changed. After an error those whose replies
// depend on it are closed.
func (s *Server) Flush() error {
	first := s.lost
	s.lost = nil
	for i, ns := range s.wrotes {
		s.wrotes[i] = nil
		ns.wrote = false
		if ns.broken() {
			continue
		}
		if err := ns.store.Flush(); err != nil {
			s.unwritten(ns, err)
			first = err
		}
		s.stir(ns)
	}
	s.wrotes = s.wrotes[:0]
	return first
}

func (s *Server) unwritten(ns *namespace, err error) {
	s.count.writeErrors++
	ns.errors++
	ns.lastError = uint64(s.now().Unix())
	s.rare.Error().Err(err).Str("namespace", ns.Name).Msg("cannot write: the clients that did are disconnected")
}

// stir has a store looked after.
func (s *Server) stir(ns *namespace) {
	ns.changed = true
	if !ns.busy {
		ns.busy = true
		s.busy = append(s.busy, ns)
	}
}

// Tick ends what waited too long, looks at passwords whose time has come, and has stores do what they put off: compact,
// and make what was written durable.
func (s *Server) Tick(now time.Time) time.Duration {
	next := now.Add(tickEvery)
	for _, until := range []time.Time{s.expire(now), s.tryAgain(now)} {
		if !until.IsZero() && until.Before(next) {
			next = until
		}
	}
	s.busy = slices.DeleteFunc(s.busy, func(ns *namespace) bool {
		if ns.broken() || ns.gone {
			ns.busy = false
			return true
		}
		if !ns.due.After(now) {
			s.work(ns, now)
		}
		if ns.busy && ns.due.Before(next) {
			next = ns.due
		}
		return !ns.busy
	})
	return max(next.Sub(now), 0)
}

// work has a store do a step.
func (s *Server) work(ns *namespace, now time.Time) {
	after, err := ns.store.Work(now, workBudget)
	if err != nil {
		s.count.writeErrors++
		ns.errors++
		ns.lastError = uint64(now.Unix())
		s.rare.Error().Err(err).Str("namespace", ns.Name).Msg("cannot tidy up a namespace's data")
		after = max(after, tickEvery)
	}
	ns.due = now.Add(after)
	if ns.changed {
		ns.changed, ns.rests = false, now.Add(restAfter)
	}
	if err == nil && after >= tickEvery && now.After(ns.rests) {
		ns.busy = false
	}
}
