package logs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// Readers who take one line and then none hold little of a long log, followers
// or not.
func TestUnreadLinesHoldNoMemory(t *testing.T) {
	const readers, most = 16, 256 << 10
	dir := folder(t)
	must(t, os.MkdirAll(filepath.Join(dir, "1-1"), 0o700))
	must(t, os.WriteFile(fileName(filepath.Join(dir, "1-1"), 0), longLog(), 0o600))
	followers := NewFollowers()
	for name, read := range map[string]func(context.Context, func(node.LogLine) error) error{
		"each": func(ctx context.Context, f func(node.LogLine) error) error { return Each(ctx, dir, "1-1", 1<<30, f) },
		"follow": func(ctx context.Context, f func(node.LogLine) error) error {
			return followers.Follow(ctx, Log{Dir: dir, ID: "1-1", User: "somebody"}, 1<<30, f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var stuck, ended sync.WaitGroup
			stuck.Add(readers)
			for range readers {
				ended.Go(func() {
					first := sync.OnceFunc(stuck.Done)
					if err := read(ctx, func(node.LogLine) error {
						first()
						<-ctx.Done()
						return ctx.Err()
					}); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				})
			}
			stuck.Wait()
			held := heap() - before
			cancel()
			ended.Wait()
			t.Logf("%d KiB a reader", held/readers>>10)
			if held > readers*most {
				t.Errorf("%d readers who don't read hold %d bytes, at most %d are wanted", readers, held, readers*most)
			}
		})
	}
}

// longLog is more than is given of a log.
func longLog() (text []byte) {
	for at := time.Now(); len(text) < maxLast*9/8; {
		text = appendRecord(text, at, stdout, true, []byte(strings.Repeat("x", 1000)))
	}
	return text
}

// heap is how much of the heap is in use, in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Who reads on when much is no longer kept hears of it, and comes to an end.
func TestRotationWhileReading(t *testing.T) {
	dir := folder(t)
	l := testLimits()
	c := here(t, dir, l)
	out := shim(t, c.place.paths().Stdout)
	for i := range 1000 {
		say(t, out, fmt.Sprintln(i, strings.Repeat("x", 100)))
	}
	logs := filepath.Join(dir, "logs")
	until(t, "all lines", func() bool {
		got, _ := Last(logs, "1-1", 1)
		return len(got) == 1 && strings.HasPrefix(got[0].Text, "999 ")
	})
	said, noted := 0, false
	must(t, Each(t.Context(), logs, "1-1", 1<<30, func(line node.LogLine) error {
		if said++; said == 1 {
			for i := range 5000 {
				say(t, out, fmt.Sprintln(1000+i, strings.Repeat("x", 100)))
			}
			until(t, "the log has turned", func() bool { list, _ := numbers(c.place.files); return len(list) > 0 && list[0] > 0 })
		}
		noted = noted || strings.HasPrefix(line.Text, "croft: lines may be missing here")
		return nil
	}))
	c.finish(t, true)
	if !noted || said > 1000 {
		t.Errorf("%d lines, noted %v", said, noted)
	}
}

// The machine's root has few watches: followers beyond their share look from
// time to time instead, and miss nothing.
func TestFollowersTakeFewWatches(t *testing.T) {
	const followers = 60
	dir := folder(t)
	c := here(t, dir, testLimits())
	out := shim(t, c.place.paths().Stdout)
	logs := filepath.Join(dir, "logs")
	say(t, out, "first\n")
	until(t, "the first line", func() bool { got, _ := Last(logs, "1-1", 1); return len(got) == 1 })
	watches := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		n := 0
		for _, e := range entries {
			if what, _ := os.Readlink("/proc/self/fd/" + e.Name()); what == "anon_inode:inotify" {
				n++
			}
		}
		return n
	}
	before := watches()
	all := NewFollowers()
	ctx, cancel := context.WithCancel(t.Context())
	var first, second, ended sync.WaitGroup
	first.Add(followers)
	second.Add(followers)
	for i := range followers {
		ended.Go(func() {
			if err := all.Follow(ctx, Log{Dir: logs, ID: "1-1", User: fmt.Sprint(i % 20)}, 1, func(l node.LogLine) error {
				if l.Text == "first" {
					first.Done()
				} else {
					second.Done()
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	first.Wait()
	// Other processes may have all that the kernel has for this user.
	if n := watches() - before; int64(n) > limitWatches.Total {
		t.Errorf("%d followers have %d watches", followers, n)
	}
	if n := all.watches.Total(); n != limitWatches.Total {
		t.Errorf("%d followers hold %d of %d watches", followers, n, limitWatches.Total)
	}
	say(t, out, "second\n")
	second.Wait()
	cancel()
	ended.Wait()
	c.finish(t, true)
	if n := all.watches.Total(); n != 0 {
		t.Errorf("%d watches are still held", n)
	}
}
