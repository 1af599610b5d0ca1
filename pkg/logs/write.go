package logs

import (
	"bytes"
	"fmt"
	"sync"
	"time"
)

const (
	// dataSize and outSize are the sizes of a write's buffers, in bytes.
	dataSize = 32 << 10
	outSize  = dataSize + maxRecord + 512
)

// buffers are one write's.
type buffers struct {
	data [dataSize]byte
	out  [outSize]byte
}

func newPool() *sync.Pool { return &sync.Pool{New: func() any { return new(buffers) }} }

// write writes the spool to the files. An unfinished line stays in the spool
// unless it has to be flushed, or its user has too many of them.
func (s *stream) write(flush bool) {
	s.rest.end()
	b := s.pool.Get().(*buffers)
	defer s.pool.Put(b)
	for s.spool.pending() > 0 {
		data, err := s.spool.read(b.data[:], s.spool.head.To)
		if err != nil {
			s.log.Error().Err(err).Msg("cannot read a spool: its output is dropped")
			h := s.spool.head
			h.Number, h.Bytes, h.From, h.To = -1, h.Bytes+s.spool.pending(), h.To, s.spool.size
			s.noted(h)
			break
		}
		more, err := s.writeSome(data, flush, b.out[:0])
		if err != nil && !s.failing {
			s.log.Warn().Err(err).Msg("cannot write output: it is dropped")
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
		s.log.Warn().Err(err).Msg("cannot empty a spool")
	}
}

// mayRest reports whether an unfinished line may wait in the spool, and takes the
// user's share for it.
func (s *stream) mayRest() bool {
	if !s.spool.mayWait() {
		return false
	}
	give, err := s.quota.half()
	if err != nil {
		return false
	}
	s.rest = give
	return true
}

// share gives back a part of a limit; nil when none was taken.
type share func()

func (s *share) end() {
	if *s != nil {
		(*s)()
		*s = nil
	}
}

// writeSome writes some of data, and returns how many bytes. Data that can't be
// written is dropped and counted; the next successful write tells how much.
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
	err := s.files.append(out, func(number, offset int64) {
		next.Number, next.Offset = number, offset
		s.noted(next)
	}, func() {
		next.Number = -1
		next.Lines += int64(bytes.Count(data[:used], []byte{'\n'}))
		next.Bytes += int64(used)
		s.noted(next)
	})
	if err != nil {
		return used, err
	}
	// The file has the notice of dropped lines; the next head mustn't repeat it.
	s.spool.head.Lines, s.spool.head.Bytes = 0, 0
	return used, nil
}

// records are data's records, after a notice of lines dropped before.
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

// recover finishes a write that an earlier carrier began, unless it was complete.
func (s *stream) recover() error {
	h := s.spool.head
	if h.Number < 0 {
		return nil
	}
	b := s.pool.Get().(*buffers)
	defer s.pool.Put(b)
	data, err := s.spool.read(b.data[:min(h.To-h.From, dataSize)], h.From)
	if err == nil {
		out, _ := s.records(b.out[:0], h, data, true)
		err = s.files.again(h, out)
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
