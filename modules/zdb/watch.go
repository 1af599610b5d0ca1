package zdb

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// watch waits for a file of that name in a folder.
type watch struct {
	file *os.File
	name string
}

// watchFolder begins to watch for new files of that name. If the kernel has no more
// watches, the watch only waits.
func watchFolder(dir, name string) *watch {
	w := &watch{name: name}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return w
	}
	w.file = os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR); err != nil {
		w.close()
	}
	return w
}

// wait returns once the file has appeared, at the latest after that time.
func (w *watch) wait(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if w.file == nil {
		<-ctx.Done()
		return
	}
	file := w.file // the AfterFunc may run after close
	stop := context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 4096)
	for {
		n, err := file.Read(buf)
		if err != nil {
			<-ctx.Done()
			return
		}
		if told(buf[:n], w.name) {
			return
		}
	}
}

// told reports whether one of the kernel's events is of that name, or of lost events.
func told(events []byte, name string) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(events[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		if end > len(events) || mask&unix.IN_Q_OVERFLOW != 0 {
			return true
		}
		if string(bytes.TrimRight(events[unix.SizeofInotifyEvent:end], "\x00")) == name {
			return true
		}
		events = events[end:]
	}
	return false
}

func (w *watch) close() {
	if w.file != nil {
		_ = w.file.Close()
		w.file = nil
	}
}
