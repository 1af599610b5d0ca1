package carrier

import (
	"os"
	"runtime/debug"
	"sync"

	"github.com/pkg/errors"
)

// maxLog is how large the log gets, in bytes, before it becomes log.1.
const maxLog = 1 << 20

// logFile is a log of bounded size.
type logFile struct {
	path string
	most int64

	mu   sync.Mutex
	file *os.File
	size int64
}

func openLog(path string, most int64) (*logFile, error) {
	l := &logFile{path: path, most: most}
	return l, l.open()
}

func (l *logFile) open() error {
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
	// What the runtime says when the process crashes belongs here too.
	_ = debug.SetCrashOutput(file, debug.CrashOptions{})
	return nil
}

// Write appends. A line that can't be written is lost: the carrier goes on.
func (l *logFile) Write(line []byte) (int, error) {
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

func (l *logFile) Close() error {
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
	return l.file.Close()
}
