package carrier

import (
	"os"
	"runtime/debug"
	"sync"

	"github.com/pkg/errors"
)

// MaxLog is the size of a carrier's log, in bytes, beyond which it becomes log.1.
const MaxLog = 1 << 20

// LogFile is a log of bounded size.
type LogFile struct {
	path string
	most int64

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenLog opens or makes the log at path: beyond most bytes it becomes path.1.
func OpenLog(path string, most int64) (*LogFile, error) {
	l := &LogFile{path: path, most: most}
	return l, l.open()
}

func (l *LogFile) open() error {
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return errors.Wrap(err, "cannot open the carrier's log")
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return errors.Wrap(err, "cannot open the carrier's log")
	}
	l.file, l.size = file, info.Size()
	// The runtime's report of a crash belongs here too.
	_ = debug.SetCrashOutput(file, debug.CrashOptions{})
	return nil
}

// Write appends. A line that can't be written is lost: the carrier goes on.
func (l *LogFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(line)) > l.most && l.size > 0 {
		old := l.file
		if err := os.Rename(l.path, l.path+".1"); err == nil && l.open() == nil {
			old.Close()
		}
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	return n, err
}

// Close implements io.Closer.
func (l *LogFile) Close() error {
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
	return l.file.Close()
}
