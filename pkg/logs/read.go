package logs

import (
	"bytes"
	"context"
	"os"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// maxLast is how many bytes of files Last reads at most.
const maxLast = 8 << 20

// Last are at most the last n lines of a container, oldest first, and at most
// 8 MiB of them. A line that was longer than 16 KiB, or unfinished for a
// second, comes in pieces. NotExist when nothing was ever kept of it.
func Last(dir, id string, n int) ([]node.LogLine, error) {
	var out []node.LogLine
	err := Each(context.Background(), dir, id, n, func(line node.LogLine) error {
		out = append(out, line)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out[max(0, len(out)-max(0, n)):], nil
}

// Each calls f with the lines of Last, one after the other, and with notices
// about them, until f fails (its error) or ctx is done (nil). It has a line or
// two of them in memory however long f takes; lines removed meanwhile are left
// out, with a notice.
func Each(ctx context.Context, dir, id string, n int, f func(node.LogLine) error) error {
	at, err := logsOf(dir, id)
	if err != nil {
		return err
	}
	from, to, err := tail(at, n, maxLast)
	if err != nil {
		return err
	}
	r, err := newReader(at, from)
	if err != nil {
		return err
	}
	defer r.close()
	for ctx.Err() == nil && r.position().before(to) {
		line, ok, err := r.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := f(line); err != nil {
			return err
		}
	}
	if note, noted := r.mark(); noted && ctx.Err() == nil {
		return f(note)
	}
	return nil
}

// logsOf is the folder of a container's files.
func logsOf(dir, id string) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	at := filepath.Join(dir, id)
	if _, err := os.Stat(at); os.IsNotExist(err) {
		return "", node.Errorf(node.NotExist, "cannot read the logs of %s: there are none", id)
	} else if err != nil {
		return "", errors.Wrap(err, "cannot read logs")
	}
	return at, nil
}

// tail is where the last n lines begin and where they end, looking at no more
// than most bytes from the end on.
func tail(dir string, n int, most int64) (from, to position, err error) {
	n = max(0, n)
	list, err := numbers(dir)
	if err != nil && !os.IsNotExist(err) {
		return from, to, errors.Wrap(err, "cannot read logs")
	}
	from = position{number: -1}
	to = from
	for i := len(list) - 1; i >= 0 && most > 0; i-- {
		size, start, counted, err := lastLines(fileName(dir, list[i]), n, most)
		if os.IsNotExist(err) {
			break // it was too old, just now
		}
		if err != nil {
			return from, to, errors.Wrap(err, "cannot read logs")
		}
		if to.number < 0 {
			to = position{list[i], size}
		}
		from = position{list[i], start}
		n, most = n-counted, most-(size-start)
		if start > 0 || n <= 0 && size > 0 {
			break
		}
	}
	return from, to, nil
}

// lastLines looks backwards in one file: the end of its last line, the begin of
// the last n of them within most bytes, and how many those are.
func lastLines(path string, n int, most int64) (end, start int64, counted int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, 0, 0, err
	}
	// seen counts the ends of lines from the last on: it ends the last line,
	// each other is where one begins.
	buf, seen := make([]byte, 32<<10), 0
	for at := info.Size(); at > 0; {
		part := buf[:min(int64(len(buf)), at)]
		at -= int64(len(part))
		if _, err := file.ReadAt(part, at); err != nil {
			return 0, 0, 0, nil // it was emptied just now
		}
		for i := bytes.LastIndexByte(part, '\n'); i >= 0; i = bytes.LastIndexByte(part[:i], '\n') {
			here := at + int64(i) + 1
			if seen == 0 {
				end = here
			} else if end-here > most {
				return end, start, seen - 1, nil
			}
			start = here
			if seen == n {
				return end, start, seen, nil
			}
			seen++
		}
	}
	if end == 0 {
		return 0, 0, 0, nil
	}
	if end > most {
		return end, start, seen - 1, nil
	}
	return end, 0, seen, nil
}
