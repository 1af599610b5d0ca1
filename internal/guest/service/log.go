package service

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
)

// mostLog is the size of a log's file, in bytes, at which it becomes the old one; there is one old file.
const mostLog = 4 << 20

// mostTail is how much of the log is kept in memory, in bytes, for Last.
const mostTail = 4 << 10

// Log is a program's log: NAME.log in its folder, and NAME.log.old before it. What can't be written, for the disk is full, is
// lost: the program goes on. It is safe for concurrent use.
type Log struct {
	path string

	mu   sync.Mutex
	file *os.File
	size int64
	tail []byte
}

// OpenLog opens a log to add to it. With an error it is in memory only.
func OpenLog(folder, name string) (*Log, error) {
	l := &Log{path: filepath.Join(folder, name+".log")}
	return l, l.open()
}

func (l *Log) open() error {
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return errors.Wrapf(err, "cannot open log %s", l.path)
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return errors.Wrapf(err, "cannot open log %s", l.path)
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write implements io.Writer. It never fails: a program that can't write its log would end.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, p...)
	if over := len(l.tail) - mostTail; over > 0 {
		l.tail = append([]byte{}, l.tail[over:]...)
	}
	if l.size+int64(len(p)) > mostLog && l.size > 0 {
		l.rotate()
	}
	if l.file != nil {
		n, _ := l.file.Write(p)
		l.size += int64(n)
	}
	return len(p), nil
}

func (l *Log) rotate() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
	if err := os.Rename(l.path, l.path+".old"); err != nil {
		os.Truncate(l.path, 0) //nolint:errcheck // the log stays bounded by what can be done
	}
	l.open() //nolint:errcheck // without a file the log is in memory only, until the next rotation
}

// Last are the last lines of the log.
func (l *Log) Last(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(string(bytes.TrimSpace(l.tail)), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	out := lines[:0]
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, clip.Line(line, 300))
		}
	}
	return out
}

// Close closes the log's file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// openTerminal opens a terminal's device, and not as this process' own.
func openTerminal(device string) (*os.File, error) {
	return os.OpenFile(device, os.O_RDWR|syscall.O_NOCTTY, 0)
}
