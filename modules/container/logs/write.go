package logs

import (
	"bytes"
	"fmt"
	"sync"
	"time"
)

const (
	// dataSize and outSize are what a stream has in memory while it writes.
	dataSize = 32 << 10
	outSize  = dataSize + maxRecord + 512
)

// buffers are what is used while something is written.
type buffers struct {
	data [dataSize]byte
	out  [outSize]byte
}

func newPool() *sync.Pool { return &sync.Pool{New: func() any { return new(buffers) }} }

// write writes what is in the spool to the files. A line that isn't whole stays
// there unless it has to be flushed, or its user has too many of them.
func (s *stream) write(flush bool) {
	s.rest.end()
	b := s.c.pool.Get().(*buffers)
	defer s.c.pool.Put(b)
	for s.spool.pending() > 0 {
		data, err := s.spool.read(b.data[:], s.spool.head.To)
		if err != nil {
			s.c.log.Error().Str("stream", s.name).Err(err).Msg("a spool can't be read: what it has is dropped")
			h := s.spool.head
			h.Number, h.Bytes, h.From, h.To = -1, h.Bytes+s.spool.pending(), h.To, s.spool.size
			s.noted(h)
			break
		}
		more, err := s.writeSome(data, flush, b.out[:0])
		if err != nil && !s.failing {
			s.c.log.Warn().Str("stream", s.name).Err(err).Msg("output can't be written: it is dropped")
		}
		s.failing = err != nil
		if more == 0 {
			if flush || s.mayRest() {
				break
			}
			flush = true
		}
	}
	if err := s.spool.reset(); err != nil {
		s.c.log.Warn().Str("stream", s.name).Err(err).Msg("a spool can't be emptied")
	}
}

// mayRest reports whether a line that isn't whole may wait in the spool, and
// takes the user's share for it.
func (s *stream) mayRest() bool {
	if !s.spool.mayWait() {
		return false
	}
	give, err := s.c.fair.halves.Take(s.c.user, restSize)
	if err != nil {
		return false
	}
	s.rest = give
	return true
}

// share is what was taken of a limit, nil for nothing.
type share func()

func (s *share) end() {
	if *s != nil {
		(*s)()
		*s = nil
	}
}

// writeSome writes some of data, and says how much that was. What can't be
// written is dropped, counted, and said with the next that can.
func (s *stream) writeSome(data []byte, flush bool, out []byte) (int, error) {
	// A line is unfinished only where the data ends, not where the buffer does.
	flush = flush && s.spool.head.To+int64(len(data)) == s.spool.size
	next := s.spool.head
	next.From, next.At, next.Number = next.To, time.Now().UnixNano(), -1
	out, used := s.records(out, next, data, flush)
	if used == 0 {
		return 0, nil
	}
	next.To += int64(used)
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	err := s.c.files.ready(len(out))
	if err == nil {
		next.Number, next.Offset = s.c.files.number, s.c.files.at
		s.noted(next)
		err = s.c.files.write(out)
	}
	if err != nil {
		next.Number = -1
		next.Lines += int64(bytes.Count(data[:used], []byte{'\n'}))
		next.Bytes += int64(used)
		s.noted(next)
		return used, err
	}
	// What was dropped has been said; the next note says so too.
	s.spool.head.Lines, s.spool.head.Bytes = 0, 0
	return used, nil
}

// records are those of data, after what has to be said of what was dropped.
func (s *stream) records(out []byte, h head, data []byte, flush bool) ([]byte, int) {
	_, taken, _ := nextText(data, flush)
	if taken == 0 {
		return out, 0
	}
	at := time.Unix(0, h.At)
	if h.Bytes > 0 {
		text := fmt.Sprintf("croft: %d lines (%d bytes) of %s were dropped here: they could not be written", h.Lines, h.Bytes, s.name)
		out = appendRecord(out, at, stderr, true, []byte(text))
	}
	return render(out, data, at, s.name, flush)
}

// recover does what an earlier carrier began to write, unless it was done.
func (s *stream) recover() error {
	h := s.spool.head
	if h.Number < 0 {
		return nil
	}
	b := s.c.pool.Get().(*buffers)
	defer s.c.pool.Put(b)
	data, err := s.spool.read(b.data[:min(h.To-h.From, dataSize)], h.From)
	if err == nil {
		out, _ := s.records(b.out[:0], h, data, true)
		err = s.c.files.again(h, out)
	}
	h.Number = -1
	if err == nil {
		h.Lines, h.Bytes = 0, 0
	} else {
		h.Lines += int64(bytes.Count(data, []byte{'\n'}))
		h.Bytes += int64(len(data))
	}
	s.noted(h)
	return err
}
