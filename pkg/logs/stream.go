package logs

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/limit"
)

// flushAfter is how long a line may stay unfinished until its part is written.
const flushAfter = time.Second

// stream is one FIFO on its way to the files.
type stream struct {
	name  string
	fifo  *os.File
	spool *spool
	files *files
	quota *quota
	pool  *sync.Pool
	// slow is how long it waits for its turn, or for the disk, before it drops output.
	slow time.Duration
	log  zerolog.Logger

	// all is whether the remaining output has to be written at the end.
	all atomic.Bool
	// failing is whether the last write failed.
	failing bool
	// rest is the share of a line that waits for its end.
	rest share
}

// openStream opens one of the container's FIFOs, and the spool beside it.
func (c *container) openStream(name string, b limits) (*stream, error) {
	path := filepath.Join(c.place.fifos, name)
	fifo, err := openFIFO(path)
	if err != nil {
		return nil, err
	}
	spool, err := openSpool(path + ".spool")
	if err != nil {
		fifo.Close()
		return nil, err
	}
	return &stream{
		name: name, fifo: fifo, spool: spool, files: c.files, quota: c.quota, pool: b.pool, slow: b.slow,
		log: c.log.With().Str("stream", name).Logger(),
	}, nil
}

func (s *stream) close() {
	s.rest.end()
	s.fifo.Close()
	s.spool.close()
}

// run reads until ctx is done.
func (s *stream) run(ctx context.Context) {
	interrupt := context.AfterFunc(ctx, func() { _ = s.fifo.SetReadDeadline(time.Unix(1, 0)) })
	defer interrupt()
	for left := s.spool.pending() > 0; ctx.Err() == nil; left = false {
		quiet := false
		if !left {
			quiet = s.wait(ctx)
		}
		n := s.takeTurn(ctx, quiet)
		if wait := s.quota.wait(n); wait > 0 {
			pause(ctx, wait)
		}
	}
	if s.all.Load() {
		s.finish()
	}
}

// wait waits until the FIFO has data. With an unfinished line in the spool it
// waits for flushAfter only, and reports whether that passed.
func (s *stream) wait(ctx context.Context) (quiet bool) {
	deadline := time.Time{}
	if s.spool.pending() > 0 {
		deadline = time.Now().Add(flushAfter)
	}
	_ = s.fifo.SetReadDeadline(deadline)
	if ctx.Err() != nil {
		return false
	}
	conn, err := s.fifo.SyscallConn()
	if err == nil {
		err = conn.Read(func(fd uintptr) bool {
			n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
			return err != nil || n > 0
		})
	}
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// takeTurn waits for this stream's turn, then moves the FIFO's data to the files.
func (s *stream) takeTurn(ctx context.Context, flush bool) int64 {
	turn := s.quota.turn()
	defer turn.End()
	if !s.come(ctx, turn) {
		return 0
	}
	n, err := s.fillNow()
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		s.refuse(err)
	}
	s.hand(flush && n == 0)
	return n
}

// come waits for a turn. When that takes too long, output is dropped meanwhile:
// no container waits for others' logs.
func (s *stream) come(ctx context.Context, turn *limit.Ticket) bool {
	late := time.NewTimer(s.slow)
	defer late.Stop()
	select {
	case <-turn.Given():
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	case <-late.C:
	}
	limitTurns.Reached()
	s.log.Warn().Dur("after", s.slow).Msg("no turn to write: new output is dropped")
	s.dropped(s.drain(turn.Given(), ctx.Done()))
	return ctx.Err() == nil
}

// mostAtEnd is how much is taken of a FIFO at its end, in bytes: the size of the
// largest. A writer that goes on isn't waited for.
const mostAtEnd = 1 << 20

// finish writes all that the FIFO and the spool hold.
func (s *stream) finish() {
	_ = s.fifo.SetReadDeadline(time.Time{})
	turn := s.quota.turn()
	defer turn.End()
	late := time.NewTimer(s.slow)
	defer late.Stop()
	select {
	case <-turn.Given():
	case <-late.C:
		limitTurns.Reached()
		s.log.Warn().Msg("no turn to write: the last output is dropped")
		return
	}
	s.hand(false) // what an earlier carrier took
	for taken := int64(0); taken < mostAtEnd; {
		n, err := s.fillNow()
		if n == 0 || err != nil {
			break
		}
		taken += n
		s.hand(false)
	}
	s.hand(true)
}

// fillNow moves the FIFO's present content to the spool. It moves nothing to a spool that might have more than its limit then, which happens when carriers
// before this one were killed before they wrote: what they took is written first.
func (s *stream) fillNow() (n int64, err error) {
	if s.spool.pending() > limitSpool.Each-maxSpliced {
		return 0, nil
	}
	conn, err := s.fifo.SyscallConn()
	if err != nil {
		return 0, err
	}
	if cerr := conn.Control(func(fd uintptr) { n, err = s.spool.take(int(fd)) }); cerr != nil {
		return 0, cerr
	}
	return n, err
}

// hand writes the spool to the files. When that takes too long, output is dropped
// meanwhile: no container waits for a disk.
func (s *stream) hand(flush bool) {
	if s.spool.pending() == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.write(flush)
	}()
	late := time.NewTimer(s.slow)
	defer late.Stop()
	select {
	case <-done:
		return
	case <-late.C:
		s.log.Warn().Dur("after", s.slow).Msg("the disk doesn't answer: new output is dropped")
	}
	s.dropped(s.drain(done, nil))
}

// dropped counts dropped output, for the notice that precedes the next written line.
func (s *stream) dropped(lines, size int64) {
	h := s.spool.head
	h.Number, h.Lines, h.Bytes = -1, h.Lines+lines, h.Bytes+size
	s.noted(h)
}

// drain drops output until done or stop is closed, and returns how much that was.
func (s *stream) drain(done, stop <-chan struct{}) (lines, size int64) {
	const look = 100 * time.Millisecond
	buf := make([]byte, 4<<10)
	for {
		select {
		case <-done:
			return lines, size
		case <-stop:
			return lines, size
		default:
		}
		_ = s.fifo.SetReadDeadline(time.Now().Add(look))
		n, err := s.fifo.Read(buf)
		lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
		size += int64(n)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			select {
			case <-done:
			case <-stop:
			}
			return lines, size
		}
	}
}

// refuse drops output that the spool can't take.
func (s *stream) refuse(cause error) {
	s.log.Warn().Err(cause).Msg("cannot spool output: it is dropped")
	buf := make([]byte, 32<<10)
	_ = s.fifo.SetReadDeadline(time.Now().Add(flushAfter))
	n, _ := s.fifo.Read(buf)
	h := s.spool.head
	h.Lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
	h.Bytes += int64(n)
	s.noted(h)
}

// noted writes h to the spool's head. When that fails the spool keeps the head before.
func (s *stream) noted(h head) {
	if err := s.spool.note(h); err != nil {
		s.log.Warn().Err(err).Msg("cannot write a spool")
	}
}

// pause waits, unless ctx is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
