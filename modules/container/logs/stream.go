package logs

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// flushAfter is how long a line may stay unfinished until what there is of it
// is written.
const flushAfter = time.Second

// stream is one FIFO on its way to the files.
type stream struct {
	c     *container
	name  string
	fifo  *os.File
	spool *spool
	slow  time.Duration
	// all says that what is left has to be written at the end.
	all atomic.Bool
	// failing says that the last write failed.
	failing bool
}

func openStream(c *container, name string, slow time.Duration) (*stream, error) {
	fifo, err := openFIFO(filepath.Join(c.place.fifos, name))
	if err != nil {
		return nil, err
	}
	spool, err := openSpool(filepath.Join(c.place.fifos, name+".spool"))
	if err != nil {
		fifo.Close()
		return nil, err
	}
	return &stream{c: c, name: name, fifo: fifo, spool: spool, slow: slow}, nil
}

func (s *stream) close() {
	s.fifo.Close()
	s.spool.close()
}

// run reads until ctx is done.
func (s *stream) run(ctx context.Context) {
	interrupt := context.AfterFunc(ctx, func() { _ = s.fifo.SetReadDeadline(time.Unix(1, 0)) })
	defer interrupt()
	done := make(chan struct{}, 1)
	n, err := s.spool.pending(), error(nil) // what an earlier one left
	for {
		quiet := errors.Is(err, os.ErrDeadlineExceeded)
		if err != nil && !quiet {
			s.refuse(err)
		}
		s.hand(done, quiet && ctx.Err() == nil)
		if ctx.Err() != nil {
			break
		}
		if wait := s.c.pace.wait(n); wait > 0 {
			pause(ctx, wait)
		}
		n, err = s.fill(ctx)
	}
	if s.all.Load() {
		s.finish(done)
	}
}

// finish writes all that there is.
func (s *stream) finish(done chan struct{}) {
	_ = s.fifo.SetReadDeadline(time.Time{})
	for {
		n, err := s.fillNow()
		s.hand(done, n == 0 || err != nil)
		if n == 0 || err != nil {
			return
		}
	}
}

// fill waits until the FIFO has something, and takes it. With a line that
// isn't whole it doesn't wait long.
func (s *stream) fill(ctx context.Context) (n int64, err error) {
	deadline := time.Time{}
	if s.spool.pending() > 0 {
		deadline = time.Now().Add(flushAfter)
	}
	_ = s.fifo.SetReadDeadline(deadline)
	if ctx.Err() != nil {
		return 0, os.ErrDeadlineExceeded
	}
	conn, err := s.fifo.SyscallConn()
	if err != nil {
		return 0, err
	}
	rerr := conn.Read(func(fd uintptr) bool {
		n, err = s.spool.take(int(fd))
		return !errors.Is(err, unix.EAGAIN)
	})
	if rerr != nil {
		return 0, rerr
	}
	return n, err
}

// fillNow takes what the FIFO has at this moment.
func (s *stream) fillNow() (n int64, err error) {
	conn, err := s.fifo.SyscallConn()
	if err != nil {
		return 0, err
	}
	if cerr := conn.Control(func(fd uintptr) { n, err = s.spool.take(int(fd)) }); cerr != nil {
		return 0, cerr
	}
	return n, err
}

// hand writes what is in the spool. When that takes too long, what comes
// meanwhile is dropped: no container waits for a disk.
func (s *stream) hand(done chan struct{}, flush bool) {
	if s.spool.pending() == 0 {
		return
	}
	go func() {
		s.write(flush)
		done <- struct{}{}
	}()
	late := time.NewTimer(s.slow)
	defer late.Stop()
	select {
	case <-done:
		return
	case <-late.C:
		s.c.log.Warn().Str("stream", s.name).Dur("after", s.slow).Msg("the disk doesn't answer: what comes is dropped")
	}
	lines, size := s.drain(done)
	h := s.spool.head
	h.Number, h.Lines, h.Bytes = -1, h.Lines+lines, h.Bytes+size
	s.noted(h)
}

// drain drops what comes until done.
func (s *stream) drain(done chan struct{}) (lines, size int64) {
	const look = 100 * time.Millisecond
	buf := make([]byte, 4<<10)
	for {
		select {
		case <-done:
			return lines, size
		default:
		}
		_ = s.fifo.SetReadDeadline(time.Now().Add(look))
		n, err := s.fifo.Read(buf)
		lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
		size += int64(n)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			<-done
			return lines, size
		}
	}
}

// refuse drops what the spool can't take.
func (s *stream) refuse(cause error) {
	s.c.log.Warn().Str("stream", s.name).Err(cause).Msg("output can't be taken: it is dropped")
	buf := make([]byte, 32<<10)
	_ = s.fifo.SetReadDeadline(time.Now().Add(flushAfter))
	n, _ := s.fifo.Read(buf)
	h := s.spool.head
	h.Lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
	h.Bytes += int64(n)
	s.noted(h)
}

// noted notes h; without a head the spool still holds what it says.
func (s *stream) noted(h head) {
	if err := s.spool.note(h); err != nil {
		s.c.log.Warn().Str("stream", s.name).Err(err).Msg("a spool can't be written")
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
