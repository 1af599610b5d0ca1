// Package notice hears of things that appear or disappear in folders. It owns one inotify
// file of the kernel's, and reads and changes nothing else.
package notice

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

const (
	// things are the events of what is in a folder, self those that end its watch.
	things = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
	self   = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_UNMOUNT | unix.IN_IGNORED
)

// Folders are watched folders.
type Folders struct {
	file *os.File
	// told is called with the name of each thing that has appeared or disappeared, lost
	// when any may have.
	told func(name string)
	lost func()

	mu      sync.Mutex
	watches map[string]int32
}

// Open makes Folders without any.
func Open(told func(name string), lost func()) (*Folders, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, errors.Wrap(err, "cannot watch folders")
	}
	return &Folders{file: os.NewFile(uintptr(fd), "inotify"), told: told, lost: lost, watches: map[string]int32{}}, nil
}

// Close ends Run.
func (f *Folders) Close() { _ = f.file.Close() }

// Watch watches these folders from now on. lost is called when one wasn't watched before,
// or is another one now. It returns the first folder's error that can't be watched.
func (f *Folders) Watch(dirs ...string) (failed error) {
	raw, err := f.file.SyscallConn()
	if err != nil {
		return errors.Wrap(err, "cannot watch folders")
	}
	fresh := false
	for _, dir := range dirs {
		var watch int
		var refused error
		err := raw.Control(func(fd uintptr) {
			watch, refused = unix.InotifyAddWatch(int(fd), dir, things|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_ONLYDIR)
		})
		if err == nil {
			err = refused
		}
		f.mu.Lock()
		before, known := f.watches[dir]
		switch {
		case err != nil:
			delete(f.watches, dir)
			if failed == nil {
				failed = errors.Wrapf(err, "cannot watch folder %s", dir)
			}
		case !known || before != int32(watch):
			f.watches[dir] = int32(watch)
			fresh = true
		}
		f.mu.Unlock()
	}
	if fresh {
		f.lost()
	}
	return failed
}

// Run tells of things until ctx is done.
func (f *Folders) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, f.Close)
	defer stop()
	buf := make([]byte, 64<<10)
	for {
		n, err := f.file.Read(buf)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return errors.Wrap(err, "cannot read what has changed in folders")
		}
		f.handle(buf[:n])
	}
}

// handle handles the kernel's events.
func (f *Folders) handle(events []byte) {
	for len(events) >= unix.SizeofInotifyEvent {
		watch, mask := int32(binary.NativeEndian.Uint32(events)), binary.NativeEndian.Uint32(events[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		if end > len(events) {
			break
		}
		name := string(bytes.TrimRight(events[unix.SizeofInotifyEvent:end], "\x00"))
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			f.lost()
		case mask&self != 0:
			if f.forget(watch) {
				f.lost()
			}
		case mask&things != 0:
			f.told(name)
		}
		events = events[end:]
	}
}

// forget forgets a watch that has ended, and reports whether it was known.
func (f *Folders) forget(watch int32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for dir, w := range f.watches {
		if w == watch {
			delete(f.watches, dir)
			return true
		}
	}
	return false
}
