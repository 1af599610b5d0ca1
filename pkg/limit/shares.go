package limit

import (
	"fmt"
	"sync"
)

// Shares hands out the amounts of a Limit. It may be used by several goroutines,
// and keeps nothing of a key that holds nothing.
type Shares struct {
	limit Limit

	mu    sync.Mutex
	held  map[string]int64
	total int64
	// unknown is the part of total that unknown keys hold.
	unknown int64
}

// Shares returns the amounts of l, nothing of them taken.
func (l Limit) Shares() *Shares { return &Shares{limit: l, held: map[string]int64{}} }

// Full is the error of a request beyond a limit.
type Full struct {
	Limit Limit
	// All is whether the limit of all together is reached; else it is key's own.
	All bool
}

func (f *Full) Error() string {
	if f.All {
		return fmt.Sprintf("%s: all %s are taken", f.Limit.Name, f.Limit.Unit.format(f.Limit.Total))
	}
	return fmt.Sprintf("%s: a %s has at most %s", f.Limit.Name, f.Limit.Per, f.Limit.Unit.format(f.Limit.Each))
}

// Take takes n for key, which is unknown: it gets nothing of the kept part. The
// error is a *Full, and then nothing is taken. give gives the amount back once;
// later calls of it do nothing.
func (s *Shares) Take(key string, n int64) (give func(), err error) { return s.take(key, n, false) }

// TakeKnown is Take for a known key, which may have the kept part.
func (s *Shares) TakeKnown(key string, n int64) (give func(), err error) { return s.take(key, n, true) }

func (s *Shares) take(key string, n int64, known bool) (func(), error) {
	if n < 0 {
		panic(fmt.Sprintf("limit %s: cannot take %d", s.limit.Name, n))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.full(key, n, known); err != nil {
		s.limit.Reached()
		return nil, err
	}
	s.add(key, n, known)
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.add(key, -n, known)
	}), nil
}

// Hold records that key, which is unknown, holds n more, or less where n is negative,
// whatever the limit: for existing use, as on a disk.
func (s *Shares) Hold(key string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(key, n, false)
}

// HoldKnown is Hold for a known key.
func (s *Shares) HoldKnown(key string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(key, n, true)
}

// full returns the limit that another n of key would pass. s.mu is held.
func (s *Shares) full(key string, n int64, known bool) error {
	l := s.limit
	switch {
	case l.Each > 0 && n > l.Each-s.held[key]:
		return &Full{Limit: l}
	case l.Total > 0 && n > l.Total-s.total:
		return &Full{Limit: l, All: true}
	case l.Total > 0 && !known && n > l.Total-l.Kept-s.unknown:
		return &Full{Limit: l, All: true}
	}
	return nil
}

func (s *Shares) add(key string, n int64, known bool) {
	s.total += n
	if !known {
		s.unknown += n
	}
	if s.held[key] += n; s.held[key] == 0 {
		delete(s.held, key)
	}
}

// Held is the amount that key holds.
func (s *Shares) Held(key string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[key]
}

// Total is the amount that all hold together.
func (s *Shares) Total() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}
