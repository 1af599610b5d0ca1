package logs

import (
	"encoding/binary"
	"hash/crc32"
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// spool is a file that bytes of a FIFO move to within the kernel: a process
// that is killed at any point leaves each of them in one of the two. Its head
// notes what is being written from it to the log.
//
// Before anything is written the head says so, with all that makes the same
// bytes again at the same place. A successor does it again when it isn't done.
type spool struct {
	file *os.File
	head head
	size int64 // of the data
	raw  [headSize]byte
}

// head is what is noted of the last write.
type head struct {
	// From and To are what is being written, of the data: all before is done.
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
	// resetAt is how much of what is done stays until it is thrown away.
	resetAt = 16 << 10
	// maxSpliced is how much is taken at once: what a FIFO holds.
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
	return errors.Wrap(err, "cannot note what is written")
}

// pending is how many bytes aren't in the log.
func (s *spool) pending() int64 { return s.size - s.head.To }

// take moves what the FIFO has into the spool; 0 for nothing.
func (s *spool) take(fifo int) (int64, error) {
	for {
		at := dataAt + s.size
		n, err := unix.Splice(fifo, nil, int(s.file.Fd()), &at, maxSpliced, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		if err == unix.EINTR {
			continue
		}
		s.size += max(0, n)
		return n, err
	}
}

// read fills buf with the data from at on, as far as there is some.
func (s *spool) read(buf []byte, from int64) ([]byte, error) {
	buf = buf[:min(int64(len(buf)), s.size-from)]
	_, err := s.file.ReadAt(buf, dataAt+from)
	return buf, errors.Wrap(err, "cannot read a spool")
}

// reset throws away what is done, once it is worth it.
func (s *spool) reset() error {
	if s.pending() > 0 || s.head.To < resetAt {
		return nil
	}
	if err := s.file.Truncate(dataAt); err != nil {
		return errors.Wrap(err, "cannot empty a spool")
	}
	s.size = 0
	return s.note(head{Number: -1, Lines: s.head.Lines, Bytes: s.head.Bytes})
}

func (s *spool) close() { _ = s.file.Close() }
