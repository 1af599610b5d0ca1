package logs

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// spool is a file that bytes of a FIFO move to within the kernel: a process
// that is killed at any point leaves each of them in one of the two. Its head
// records the write to the log that is under way.
//
// The head is written before the log, with all that is needed to write the same
// bytes again at the same place. A successor repeats an unfinished write.
//
// Written data is discarded: all of it when nothing waits, else by a hole up to
// the incomplete line, so that a process that never ends a line gains no memory.
type spool struct {
	file *os.File
	head head
	size int64 // of the data
	// freed is where the data begins that takes room: before is a hole.
	freed int64
	// solid says that the file system makes no holes.
	solid bool
	raw   [headSize]byte
}

// head is the note of the last write.
type head struct {
	// From and To bound the data that is being written; all before is finished.
	From, To int64
	// At is the time of its records, in Unix nanoseconds.
	At int64
	// Number and Offset are the log file and where in it; Number is -1 when
	// nothing is to be written.
	Number, Offset int64
	// Lines and Bytes were dropped before.
	Lines, Bytes int64
}

const (
	magic = "croftsp1"
	// headSize is that of the fields, dataAt where the data begins.
	headSize = 8 + 7*8 + 4
	dataAt   = 4096
	// resetAt is how much written data stays before it is discarded, holeAt
	// how much while a line is incomplete.
	resetAt = 4 << 10
	holeAt  = 16 << 10
	// restSize is the most that a spool takes while it waits for the end of a line:
	// the head, written data without a hole, and the line, each in whole pages.
	restSize = dataAt + holeAt + maxText + 2*pageSize
	// longest is where a file ends on any file system, by far.
	longest  = 1 << 30
	pageSize = 4096
	// maxSpliced is how much is taken at once: the size of a FIFO.
	maxSpliced = 64 << 10
)

// openSpool opens or makes one. One that can't be read is begun anew.
func openSpool(path string) (*spool, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, errors.Wrap(err, "cannot open a spool")
	}
	s := &spool{file: file}
	if err := s.load(); err != nil {
		file.Close()
		return nil, errors.Wrap(err, "cannot open a spool")
	}
	return s, nil
}

func (s *spool) load() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	s.size = max(0, info.Size()-dataAt)
	_, _ = s.file.ReadAt(s.raw[:], 0)
	if s.parse() && s.head.To <= s.size {
		return nil
	}
	// Cut short it was when all was done; else it is new, or damaged.
	s.head = head{Number: -1, Lines: s.head.Lines, Bytes: s.head.Bytes}
	s.size = 0
	if err := s.file.Truncate(dataAt); err != nil {
		return err
	}
	return s.note(s.head)
}

// parse reads the head.
func (s *spool) parse() bool {
	sum := binary.LittleEndian.Uint32(s.raw[headSize-4:])
	if string(s.raw[:8]) != magic || crc32.ChecksumIEEE(s.raw[:headSize-4]) != sum {
		return false
	}
	for i, field := range s.head.fields() {
		*field = int64(binary.LittleEndian.Uint64(s.raw[8+8*i:]))
	}
	return s.head.From >= 0 && s.head.From <= s.head.To
}

func (h *head) fields() [7]*int64 {
	return [7]*int64{&h.From, &h.To, &h.At, &h.Number, &h.Offset, &h.Lines, &h.Bytes}
}

// note writes the head: one write within a page, which no signal parts.
func (s *spool) note(h head) error {
	s.head = h
	copy(s.raw[:], magic)
	for i, field := range h.fields() {
		binary.LittleEndian.PutUint64(s.raw[8+8*i:], uint64(*field))
	}
	binary.LittleEndian.PutUint32(s.raw[headSize-4:], crc32.ChecksumIEEE(s.raw[:headSize-4]))
	_, err := s.file.WriteAt(s.raw[:], 0)
	return errors.Wrap(err, "cannot write the head of a spool")
}

// pending is how many bytes aren't in the log.
func (s *spool) pending() int64 { return s.size - s.head.To }

// take moves the FIFO's content to the spool, and returns how many bytes.
func (s *spool) take(fifo int) (int64, error) {
	for {
		at := dataAt + s.size
		n, err := unix.Splice(fifo, nil, int(s.file.Fd()), &at, maxSpliced, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		if err == unix.EINTR {
			continue
		}
		n = max(0, n)
		s.size += n
		return n, err
	}
}

// read fills buf with the data from at on, as far as there is some.
func (s *spool) read(buf []byte, from int64) ([]byte, error) {
	buf = buf[:min(int64(len(buf)), s.size-from)]
	_, err := s.file.ReadAt(buf, dataAt+from)
	return buf, errors.Wrap(err, "cannot read a spool")
}

// reset throws the finished part away, once it is worth it.
func (s *spool) reset() error {
	if s.pending() > 0 {
		return s.free(holeAt)
	}
	if s.head.To < resetAt {
		return nil
	}
	if err := s.file.Truncate(dataAt); err != nil {
		return errors.Wrap(err, "cannot empty a spool")
	}
	s.size, s.freed = 0, 0
	return s.note(head{Number: -1, Lines: s.head.Lines, Bytes: s.head.Bytes})
}

// free makes a hole of the finished part, if that is worth bytes or more.
func (s *spool) free(worth int64) error {
	if s.solid || s.head.To-s.freed < worth {
		return nil
	}
	h := s.head
	h.From, h.Number = h.To, -1 // it isn't done again: it won't be there
	if err := s.note(h); err != nil {
		return err
	}
	return s.punch(h.To)
}

// punch makes a hole of the data before to, as far as whole pages go.
func (s *spool) punch(to int64) error {
	to = to / pageSize * pageSize
	if s.freed >= to {
		return nil
	}
	err := unix.Fallocate(int(s.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, dataAt+s.freed, to-s.freed)
	if errors.Is(err, unix.EOPNOTSUPP) {
		s.solid = true
		return nil
	}
	if err != nil {
		return errors.Wrap(err, "cannot give back unused space of a spool")
	}
	s.freed = to
	return nil
}

// mayWait reports whether a line that isn't whole may stay: the file has room
// for its end.
func (s *spool) mayWait() bool {
	return s.size < longest && (!s.solid || s.size < limitSpool.Each/2)
}

// trim drops the oldest waiting bytes beyond most, up to the end of a line if
// there is one. Bytes being written when a carrier was killed count as dropped,
// though the log may have them: only a spool that has grown beyond all bounds
// is trimmed.
func (s *spool) trim(most int64) (dropped int64, err error) {
	h := s.head
	if h.Number < 0 {
		h.From = h.To
	}
	if s.pending() <= most {
		return 0, s.punch(h.From)
	}
	began := h.From
	h.Number = -1
	cut, whole := s.size-most, false
	buf := make([]byte, dataSize)
	for at := began; at < s.size && (at < cut || !whole); {
		// Before the cut lines are counted, after it the first end is looked for.
		part := buf
		if at < cut {
			part = buf[:min(int64(len(buf)), cut-at)]
		}
		data, err := s.read(part, at)
		if err != nil {
			return 0, err
		}
		if at < cut {
			h.Lines += int64(bytes.Count(data, []byte{'\n'}))
			at += int64(len(data))
			whole = data[len(data)-1] == '\n'
			continue
		}
		end := bytes.IndexByte(data, '\n')
		if end >= 0 {
			h.Lines++
			cut, whole = at+int64(end)+1, true
		}
		at += int64(len(data))
	}
	h.From, h.To, h.Bytes = cut, cut, h.Bytes+cut-began
	if err := s.note(h); err != nil {
		return 0, err
	}
	return cut - began, s.free(0)
}

func (s *spool) close() { _ = s.file.Close() }
