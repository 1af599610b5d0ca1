package logs

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// limitWatches bounds the inotify instances that wake followers: root has 128 on most
// machines, which the rest of the machine needs too.
var limitWatches = limit.Limit{Name: "log-watches", Per: "user", Each: 4, Total: 32}

// Followers follow logs. One is enough for a process.
type Followers struct {
	watches *limit.Shares
}

// NewFollowers makes it, with nothing followed.
func NewFollowers() *Followers { return &Followers{watches: limitWatches.Shares()} }

// Log names a container's log: the folder of logs, the ID, and the user who follows it.
type Log struct {
	Dir, ID, User string
}

// Read calls f with the last tail lines of a container, and with each that comes if follow is set: see Follow and Each.
// A container without output has no lines, which is no error.
func (fs *Followers) Read(ctx context.Context, log Log, tail int, follow bool, f func(node.LogLine) error) error {
	if follow {
		return fs.Follow(ctx, log, tail, f)
	}
	// Line by line: a reader that doesn't go on holds none in memory.
	given := false
	err := Each(ctx, log.Dir, log.ID, tail, func(line node.LogLine) error {
		given = true
		return f(line)
	})
	if node.KindOf(err) == node.NotExist && !given {
		return nil
	}
	return err
}

// Follow calls f with the last tail lines of a container and then with each
// that comes, until ctx is done (nil), f fails (its error), or the logs are
// dropped (nil). NotExist as Last.
func (fs *Followers) Follow(ctx context.Context, log Log, tailLines int, f func(node.LogLine) error) error {
	at, err := logsOf(log.Dir, log.ID)
	if err != nil {
		return err
	}
	give, refused := fs.watches.Take(log.User, 1)
	if refused == nil {
		defer give()
	}
	w := newWatch(at, refused == nil)
	defer w.close()
	from, _, err := tail(at, tailLines, maxLast)
	if err != nil {
		return err
	}
	r, err := newReader(at, from)
	if err != nil {
		return err
	}
	defer r.close()
	for ctx.Err() == nil {
		over := w.over(r.number)
		if err := r.each(ctx, f); err != nil || over {
			return err
		}
		w.wait(ctx)
	}
	return nil
}

// each calls f with all that there is.
func (r *reader) each(ctx context.Context, f func(node.LogLine) error) error {
	for ctx.Err() == nil {
		line, ok, err := r.next()
		if err != nil || !ok {
			return err
		}
		if err := f(line); err != nil {
			return err
		}
	}
	return nil
}

const (
	// lookEvery is how often a follower looks when there is no room for
	// another watch, lookAnyway how often it does so all the same.
	lookEvery  = 250 * time.Millisecond
	lookAnyway = 10 * time.Second
)

// watch waits for changes in the folder of a container's logs.
type watch struct {
	dir    string
	folder os.FileInfo
	events *os.File // nil when it looks from time to time
	gone   bool
	// soon says that a file was removed: the folder may go next, and the kernel
	// doesn't say so while a file of it is open.
	soon bool
}

// newWatch is woken by the kernel if it may be, and else looks from time to time.
func newWatch(dir string, woken bool) *watch {
	w := &watch{dir: dir}
	w.folder, _ = os.Stat(dir)
	if !woken {
		return w
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return w
	}
	const what = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_DELETE | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	if _, err := unix.InotifyAddWatch(fd, dir, what); err != nil {
		_ = unix.Close(fd)
		return w
	}
	w.events = os.NewFile(uintptr(fd), "inotify")
	return w
}

// wait returns when something may have changed, or ctx is done.
func (w *watch) wait(ctx context.Context) {
	if w.events == nil {
		pause(ctx, lookEvery)
		return
	}
	until := time.Now().Add(lookAnyway)
	if w.soon {
		until = time.Now().Add(lookEvery)
	}
	w.soon = false
	_ = w.events.SetReadDeadline(until)
	interrupt := context.AfterFunc(ctx, func() { _ = w.events.SetReadDeadline(time.Unix(1, 0)) })
	defer interrupt()
	if ctx.Err() != nil {
		return
	}
	var buf [4096]byte
	n, _ := w.events.Read(buf[:])
	for at := 0; at+unix.SizeofInotifyEvent <= n; {
		mask := uint32(buf[at+4]) | uint32(buf[at+5])<<8 | uint32(buf[at+6])<<16 | uint32(buf[at+7])<<24
		w.gone = w.gone || mask&(unix.IN_IGNORED|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0
		w.soon = w.soon || mask&unix.IN_DELETE != 0
		at += unix.SizeofInotifyEvent + int(buf[at+12]) + int(buf[at+13])<<8
	}
}

// over reports that a reader at that file gets nothing more: the logs were dropped,
// or dropped and begun anew.
func (w *watch) over(number int64) bool {
	now, err := os.Stat(w.dir)
	if w.gone || err != nil || w.folder == nil || !os.SameFile(now, w.folder) {
		return true
	}
	if _, err := os.Stat(filepath.Join(w.dir, endedFile)); err == nil {
		return true
	}
	list, err := numbers(w.dir)
	return err == nil && len(list) > 0 && list[len(list)-1] < number
}

func (w *watch) close() {
	if w.events != nil {
		_ = w.events.Close()
	}
}
