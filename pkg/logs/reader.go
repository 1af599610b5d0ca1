package logs

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// position is a place in the files of a container.
type position struct {
	number int64
	offset int64
}

func (p position) before(other position) bool {
	return p.number < other.number || p.number == other.number && p.offset < other.offset
}

// reader reads records one after the other, over all files. It leaves out
// unreadable ones, and reports the gap.
type reader struct {
	dir    string
	number int64
	file   *os.File
	read   int64 // how far the file was read into buf
	buf    []byte
	start  int // of the unparsed bytes in buf
	bad    int64
	gap    bool // lines may be missing here
	at     int64
	cut    bool // a line that is too long goes on
}

const readerBuffer = 2 * maxRecord

func newReader(dir string, from position) (*reader, error) {
	r := &reader{dir: dir, number: from.number, read: from.offset, buf: make([]byte, 0, readerBuffer)}
	file, err := os.Open(fileName(dir, from.number))
	if err != nil && !os.IsNotExist(err) {
		return nil, errors.Wrap(err, "cannot read logs")
	}
	if err == nil {
		r.file = file
	}
	return r, nil
}

func (r *reader) close() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// position is where the next record begins.
func (r *reader) position() position {
	return position{r.number, r.read - int64(len(r.buf)-r.start)}
}

// next is the next record; none when all that is there was read. A last line
// without its end is still being written.
func (r *reader) next() (line node.LogLine, ok bool, err error) {
	for {
		raw, whole := r.line()
		if !whole {
			more, err := r.more()
			if err != nil {
				return node.LogLine{}, false, err
			}
			if !more {
				line, ok = r.mark()
				return line, ok, nil
			}
			continue
		}
		size := int64(len(raw)) + 1
		line, good := parseRecord(raw)
		if r.cut || !good {
			r.cut = false
			r.bad += size
			r.start += int(size)
			continue
		}
		if note, noted := r.mark(); noted {
			return note, true, nil // the line comes with the next call
		}
		r.start += int(size)
		r.at = line.At
		return line, true, nil
	}
}

// line is the next one in the buffer. It isn't taken.
func (r *reader) line() (line []byte, whole bool) {
	rest := r.buf[r.start:]
	end := bytes.IndexByte(rest, '\n')
	if end >= 0 {
		return rest[:end], true
	}
	return nil, false
}

// mark is a line that tells how much was left out, if anything was.
func (r *reader) mark() (node.LogLine, bool) {
	text := ""
	switch {
	case r.gap:
		text = "croft: lines may be missing here: they came faster than they were read"
	case r.bad > 0:
		text = fmt.Sprintf("croft: %d bytes of this log can't be read and are left out here", r.bad)
	default:
		return node.LogLine{}, false
	}
	r.gap, r.bad = false, 0
	return node.LogLine{At: r.at, Stream: stderr, Text: text}, true
}

// more reads more into the buffer, from the next file when this one is done.
func (r *reader) more() (bool, error) {
	if r.start > 0 {
		r.buf = append(r.buf[:0], r.buf[r.start:]...)
		r.start = 0
	}
	if len(r.buf) == cap(r.buf) {
		r.bad += int64(len(r.buf))
		r.buf, r.cut = r.buf[:0], true
	}
	if n, err := r.fill(); n > 0 || err != nil {
		return n > 0, err
	}
	list, err := numbers(r.dir)
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, errors.Wrap(err, "cannot read logs")
	}
	for _, n := range list {
		if n > r.number {
			return r.turn(n)
		}
	}
	return false, nil
}

func (r *reader) fill() (int, error) {
	if r.file == nil {
		return 0, nil
	}
	n, err := r.file.ReadAt(r.buf[len(r.buf):cap(r.buf)], r.read)
	r.buf = r.buf[:len(r.buf)+n]
	r.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, errors.Wrap(err, "cannot read logs")
	}
	return n, nil
}

// turn goes on with the file of that number. The present file doesn't grow any
// more: its bytes written since the last reading come first.
func (r *reader) turn(next int64) (bool, error) {
	if n, err := r.fill(); n > 0 || err != nil {
		return n > 0, err
	}
	// A file is emptied before it is removed: nobody knows how much of it is missing.
	if r.file != nil {
		info, err := r.file.Stat()
		r.gap = r.gap || err != nil || info.Size() < r.read
	}
	r.gap = r.gap || r.number >= 0 && next > r.number+1
	file, err := os.Open(fileName(r.dir, next))
	if os.IsNotExist(err) {
		return true, nil // it went just now: look again
	}
	if err != nil {
		return false, errors.Wrap(err, "cannot read logs")
	}
	r.close()
	r.bad += int64(len(r.buf))
	r.file, r.number, r.read, r.buf, r.cut = file, next, 0, r.buf[:0], false
	return true, nil
}
