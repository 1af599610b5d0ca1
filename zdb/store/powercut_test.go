package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/store"
)

// A power cut may take what was written since the last sync from the middle of the log while later records are on
// disk. What was synced before stays readable: after more starts, and when the index is made again from the log too.
func TestPowerCutTakesAPartOfTheLog(t *testing.T) {
	for _, sequential := range []bool{false, true} {
		for _, part := range []string{"middle", "end", "page"} {
			t.Run(fmt.Sprintf("sequential=%t,%s", sequential, part), func(t *testing.T) {
				l := newLossyLog(t, sequential)
				l.lose(part)
				for _, start := range []string{"the first", "the second", "one after another power cut"} {
					if strings.HasPrefix(start, "one after") {
						l.disk.boot++
					}
					said := l.check(start)
					if strings.Contains(said, "making the index again") {
						t.Errorf("at %s start: %s", start, said)
					}
				}
				l.goOn()
				delete(l.disk.files, "/data/checkpoint")
				if said := l.check("a start without a checkpoint"); !strings.Contains(said, "making the index again") {
					t.Errorf("without a checkpoint: %s", said)
				}
			})
		}
	}
}

// lossyLog is a store whose log lost a part in a power cut.
type lossyLog struct {
	t    *testing.T
	cfg  store.Config
	disk *memDisk
	keys []string
	kept map[string]bool // for keys that were written before or after the loss
	// reused is whether lost IDs of sequential mode may have been given again.
	reused bool
}

const (
	lossyBefore = 2 // entries that were synced
	lossyTotal  = 8
)

func newLossyLog(t *testing.T, sequential bool) *lossyLog {
	t.Helper()
	l := &lossyLog{t: t, disk: newMemDisk(), kept: map[string]bool{}}
	l.cfg = store.Config{
		Dir: "/data", Layout: store.V2(), Sequential: sequential, SegmentSize: 4096,
		Background: func(f func()) { f() }, Log: zerolog.Nop(),
	}.OnDisk(l.disk).WithChunks(64)
	s := open(t, l.cfg)
	for i := range lossyTotal {
		key := ""
		if !sequential {
			key = fmt.Sprint("key-", i)
		}
		l.keys = append(l.keys, set(t, s, key, lossyValue(i), 1))
		if i == lossyBefore-1 {
			s = again(t, s, l.cfg)
		}
	}
	s.Discard()
	return l
}

func lossyValue(i int) string { return strings.Repeat(fmt.Sprintf("%04d,", i), 100) }

// lose takes records that weren't synced: two in the middle of the first segment, or all to its end. The second
// segment's header stays in both cases, its records stay in the first.
func (l *lossyLog) lose(part string) {
	l.t.Helper()
	first, second := l.disk.files["/data/log-0000000001"], l.disk.files["/data/log-0000000002"]
	start := func(i int) int {
		at := bytes.Index(first.content, []byte(lossyValue(i)))
		if at < 0 {
			l.t.Fatalf("entry %d isn't in the first segment", i)
		}
		return at - len(l.keys[i]) - 48
	}
	if second == nil || bytes.Contains(first.content, []byte(lossyValue(lossyTotal-1))) {
		l.t.Fatal("the log has one segment")
	}
	from, to := start(lossyBefore), start(lossyBefore+2)
	lost := func(i int) bool { return i >= lossyBefore && i < lossyBefore+2 }
	if part == "end" {
		to = len(first.content)
		lost = func(i int) bool { return i >= lossyBefore }
		second.content = second.content[:128]
	}
	if part == "page" {
		// The end of one payload and the head of the next record, as when a page of the file is lost.
		from, to = from+200, start(lossyBefore+1)+20
	}
	clear(first.content[from:to])
	for i, key := range l.keys {
		l.kept[key] = !lost(i)
	}
	l.disk.boot++
}

// goOn writes until there are more segments: their headers say that all before them was synced.
func (l *lossyLog) goOn() {
	l.t.Helper()
	l.reused = l.cfg.Sequential
	s := open(l.t, l.cfg)
	for i := range 2 * lossyTotal {
		key := ""
		if !l.cfg.Sequential {
			key = fmt.Sprint("later-", i)
		}
		set(l.t, s, key, lossyValue(100+i), 3)
	}
	if err := s.Close(); err != nil {
		l.t.Fatal(err)
	}
}

// check opens the store, compares, closes it, and answers what it logged.
func (l *lossyLog) check(start string) string {
	l.t.Helper()
	var said bytes.Buffer
	cfg := l.cfg
	cfg.Log = zerolog.New(&said)
	s := open(l.t, cfg)
	for i, key := range l.keys {
		v, found, err := s.Get([]byte(key))
		if !l.kept[key] && (l.reused || errors.Is(err, store.ErrDamaged)) {
			continue // or its head was there, and says that there was a value
		}
		if want := l.kept[key]; err != nil || found != want || want && string(v) != lossyValue(i) {
			l.t.Errorf("at %s start entry %d is %d bytes, %t, %v; want it there: %t", start, i, len(v), found, err, want)
		}
	}
	if err := s.Close(); err != nil {
		l.t.Fatal(err)
	}
	return said.String()
}

// A store whose last segment has an unreadable header has no segment to write to until the next write.
func TestCompactionWithoutAnActiveSegment(t *testing.T) {
	disk := newMemDisk()
	cfg := store.Config{
		Dir: "/data", Layout: store.V2(), SegmentSize: 4096, Background: func(f func()) { f() }, Log: zerolog.Nop(),
	}.OnDisk(disk)
	s := open(t, cfg)
	for i := range 40 {
		set(t, s, "key", lossyValue(i), 1)
	}
	s.Discard()
	last := ""
	for path := range disk.files {
		if strings.Contains(path, "/log-") {
			last = max(last, path)
		}
	}
	clear(disk.files[last].content[:128])
	disk.boot++
	s = open(t, cfg)
	for range 10 {
		if _, err := s.Work(time.Now(), 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	set(t, s, "after", "again", 2)
	s = again(t, s, cfg)
	if v, found, err := s.Get([]byte("after")); err != nil || !found || string(v) != "again" {
		t.Error(string(v), found, err)
	}
}
