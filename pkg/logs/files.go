package logs

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// files are the log files of one container: N.log, the highest is written to.
// A number never comes back, so it tells which file a place is in.
// Its two streams share it.
type files struct {
	dir  string
	size int64
	most int

	// mu is held from the choice of a place until all is written there.
	mu     sync.Mutex
	number int64 // -1 before the first
	file   *os.File
	at     int64 // where the next record goes
}

func fileName(dir string, number int64) string {
	return filepath.Join(dir, strconv.FormatInt(number, 10)+".log")
}

// numbers are those of the files of a container, in order.
func numbers(dir string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []int64
	for _, e := range entries {
		name, isLog := strings.CutSuffix(e.Name(), ".log")
		n, err := strconv.ParseInt(name, 10, 64)
		if isLog && err == nil && n >= 0 && strconv.FormatInt(n, 10) == name {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// openFiles finds the files of a container. It makes none.
func openFiles(dir string, size int64, most int) (*files, error) {
	f := &files{dir: dir, size: size, most: most, number: -1}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, errors.Wrap(err, "cannot make a folder for logs")
	}
	list, err := numbers(dir)
	if err != nil {
		return nil, errors.Wrap(err, "cannot look for logs")
	}
	if len(list) == 0 {
		return f, nil
	}
	return f, f.open(list[len(list)-1])
}

func (f *files) open(number int64) error {
	file, err := os.OpenFile(fileName(f.dir, number), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return errors.Wrap(err, "cannot open a log")
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return errors.Wrap(err, "cannot open a log")
	}
	f.close()
	f.file, f.number, f.at = file, number, info.Size()
	return nil
}

// append writes b at the end, in a new file when there is no room for it in the
// present one. before is called with the place, before anything is written there;
// failed when nothing was written, before the other stream can write at that place.
func (f *files) append(b []byte, before func(number, offset int64), failed func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.ready(len(b))
	if err == nil {
		before(f.number, f.at)
		err = f.write(b)
	}
	if err != nil {
		failed()
	}
	return err
}

// ready makes room for n bytes in the present file, or begins the next one.
// Old files are removed first, so that there are never too many.
func (f *files) ready(n int) error {
	if f.file != nil && (f.at == 0 || f.at+int64(n) <= f.size) {
		// Somebody may have removed it.
		if info, err := os.Stat(fileName(f.dir, f.number)); err == nil && info.Size() >= f.at {
			return nil
		}
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return errors.Wrap(err, "cannot make a folder for logs")
	}
	next := f.number + 1
	if err := f.remove(next - int64(f.most)); err != nil {
		return err
	}
	return f.open(next)
}

// remove removes the files up to that number. Their space is given back even
// if somebody has them open.
func (f *files) remove(upTo int64) error {
	list, err := numbers(f.dir)
	if err != nil {
		return errors.Wrap(err, "cannot look for old logs")
	}
	for _, n := range list {
		if n > upTo {
			break
		}
		_ = os.Truncate(fileName(f.dir, n), 0)
		if err := os.Remove(fileName(f.dir, n)); err != nil && !os.IsNotExist(err) {
			return errors.Wrap(err, "cannot remove an old log")
		}
	}
	return nil
}

// write writes at the present place: all, or nothing.
func (f *files) write(b []byte) error {
	if _, err := f.file.WriteAt(b, f.at); err != nil {
		_ = f.file.Truncate(f.at)
		return errors.Wrap(err, "cannot write a log")
	}
	f.at += int64(len(b))
	return nil
}

// again repeats a write that was begun at h's place, unless it was complete.
func (f *files) again(h head, b []byte) error {
	if h.Number != f.number || f.at < h.Offset || f.at >= h.Offset+int64(len(b)) {
		return nil
	}
	f.at = h.Offset
	return f.write(b)
}

// mend ends a last line that a crash of the machine has torn.
func (f *files) mend() error {
	if f.file == nil || f.at == 0 {
		return nil
	}
	var last [1]byte
	if _, err := f.file.ReadAt(last[:], f.at-1); err != nil || last[0] == '\n' {
		return errors.Wrap(err, "cannot read a log")
	}
	return f.write([]byte{'\n'})
}

func (f *files) close() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}
