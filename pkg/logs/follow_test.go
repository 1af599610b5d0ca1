package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// follower collects what Follow gives.
type follower struct {
	mu    sync.Mutex
	lines []string
	ended chan error
}

func follow(ctx context.Context, dir, id string, tail int) *follower {
	return followBy(ctx, NewFollowers(), Log{Dir: dir, ID: id}, tail)
}

func followBy(ctx context.Context, by *Followers, log Log, tail int) *follower {
	f := &follower{ended: make(chan error, 1)}
	go func() {
		f.ended <- by.Follow(ctx, log, tail, func(l node.LogLine) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.lines = append(f.lines, l.Text)
			return nil
		})
	}()
	return f
}

func (f *follower) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.lines, "|")
}

func (f *follower) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-f.ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("it doesn't end")
		return nil
	}
}

func TestFollowersSeeEachLineOnce(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := folder(t)
	l := testLimits()
	l.files = 60 // none is too old before the slowest has read it
	c := here(t, dir, l)
	out := shim(t, c.place.paths().Stdout)
	logs := filepath.Join(dir, "logs")
	say(t, out, "a\nb\nc\n")
	until(t, "three lines", func() bool { lines, _ := Last(logs, "1-1", 9); return len(lines) == 3 })
	var followers []*follower
	for i := range 8 {
		followers = append(followers, follow(t.Context(), logs, "1-1", i))
	}
	until(t, "the last lines", func() bool {
		for i, f := range followers {
			if want := strings.Join([]string{"a", "b", "c"}[3-min(i, 3):], "|"); f.text() != want {
				return false
			}
		}
		return true
	})
	const lines = 40_000
	var want strings.Builder
	for i := range lines {
		say(t, out, fmt.Sprintf("%d\n", i))
		fmt.Fprintf(&want, "|%d", i)
	}
	say(t, out, "end\n")
	until(t, "all", func() bool {
		for _, f := range followers {
			if !strings.HasSuffix(f.text(), "|end") && f.text() != "end" {
				return false
			}
		}
		return true
	})
	if list, _ := numbers(c.place.files); len(list) < 5 {
		t.Errorf("only the files %v: nothing was turned", list)
	}
	for i, f := range followers {
		head := strings.Join([]string{"a", "b", "c"}[3-min(i, 3):], "|")
		got, all := f.text(), head+want.String()+"|end"
		// Nobody sees when the follower that wants no line from before begins: it has all from then on.
		if i == 0 && strings.HasSuffix(all, "|"+got) {
			continue
		}
		if strings.TrimPrefix(got, "|") != strings.TrimPrefix(all, "|") {
			t.Errorf("follower %d has %d bytes, want %d", i, len(got), len(head)+want.Len()+4)
		}
	}
	c.finish(t, true)
	must(t, c.place.remove(false))
	for _, f := range followers {
		if err := f.end(t); err != nil {
			t.Error(err)
		}
	}
}

func TestFollowEnds(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := folder(t)
	logs := filepath.Join(dir, "logs")
	wants(t, node.NotExist, "there are none", NewFollowers().Follow(t.Context(), Log{Dir: logs, ID: "1-1"}, 1, nil))
	c := here(t, dir, testLimits())
	// Its folder is there, but nothing in it yet.
	ctx, cancel := context.WithCancel(t.Context())
	canceled, kept, removed := follow(ctx, logs, "1-1", 5), follow(t.Context(), logs, "1-1", 5), follow(t.Context(), logs, "1-1", 5)
	out := shim(t, c.place.paths().Stdout)
	say(t, out, "one\n")
	all := func(text string) func() bool {
		return func() bool { return kept.text() == text && removed.text() == text }
	}
	until(t, "one line", all("one"))
	refused := errors.New("refused")
	if err := NewFollowers().Follow(t.Context(), Log{Dir: logs, ID: "1-1"}, 5, func(node.LogLine) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	cancel()
	must(t, canceled.end(t))
	say(t, out, "two")
	c.finish(t, true)
	must(t, c.place.remove(true))
	must(t, kept.end(t))
	must(t, removed.end(t))
	if !all("one|two")() {
		t.Errorf("%q %q", kept.text(), removed.text())
	}
	// Kept ones are shown, and then it is over.
	again := follow(t.Context(), logs, "1-1", 1)
	if err := again.end(t); err != nil || again.text() != "two" {
		t.Errorf("%q %v", again.text(), err)
	}
	c = here(t, dir, testLimits())
	f := follow(t.Context(), logs, "1-1", 1)
	until(t, "the last line", func() bool { return f.text() == "two" })
	c.finish(t, true)
	must(t, c.place.remove(false))
	must(t, f.end(t))
}

func TestSlowFollower(t *testing.T) {
	dir := folder(t)
	c := here(t, dir, testLimits())
	defer c.finish(t, false)
	out := shim(t, c.place.paths().Stdout)
	say(t, out, "0 first\n")
	logs := filepath.Join(dir, "logs")
	until(t, "the first line", func() bool { lines, _ := Last(logs, "1-1", 9); return len(lines) == 1 })
	got, wait, seen := []string{}, make(chan struct{}), make(chan struct{})
	f := make(chan error, 1)
	done := errors.New("done")
	go func() {
		f <- NewFollowers().Follow(t.Context(), Log{Dir: logs, ID: "1-1"}, 1, func(l node.LogLine) error {
			if got = append(got, l.Text); len(got) == 1 {
				close(seen)
			}
			<-wait
			if l.Text == "9 last" {
				return done
			}
			return nil
		})
	}()
	<-seen
	for range 20 {
		say(t, out, strings.Repeat("1 middle\n", 1000))
	}
	say(t, out, "9 last\n")
	until(t, "the last line", func() bool {
		lines, _ := Last(logs, "1-1", 1)
		return len(lines) == 1 && lines[0].Text == "9 last"
	})
	// Files that it has open take no space.
	if total, files := sizeOf(t, c.place.files); total > 2*MinSize || files > 2 {
		t.Errorf("%d bytes in %d files", total, files)
	}
	close(wait)
	if err := <-f; !errors.Is(err, done) {
		t.Fatal(err)
	}
	all := strings.Join(got, "|")
	if strings.Count(all, "croft: ") != 1 || !strings.Contains(all, "lines may be missing here") || !strings.HasPrefix(all, "0 first|") {
		t.Errorf("%.300q", all)
	}
}

func TestIdleFollowersTakeNoTime(t *testing.T) {
	dir := folder(t)
	c := here(t, dir, testLimits())
	defer c.finish(t, false)
	logs := filepath.Join(dir, "logs")
	ctx, cancel := context.WithCancel(t.Context())
	var all []*follower
	by := NewFollowers()
	for i := range 200 { // most of them without a watch
		all = append(all, followBy(ctx, by, Log{Dir: logs, ID: "1-1", User: fmt.Sprint(i)}, 1))
	}
	var before, after unix.Rusage
	<-time.After(500 * time.Millisecond)
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &before))
	<-time.After(2 * time.Second)
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &after))
	spent := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	if spent > time.Second {
		t.Errorf("200 idle followers took %s of 2 s", spent)
	}
	say(t, shim(t, c.place.paths().Stdout), "hello\n")
	for _, f := range all {
		until(t, "the line", func() bool { return f.text() == "hello" })
	}
	cancel()
	for _, f := range all {
		must(t, f.end(t))
	}
}

func TestDamageIsLeftOut(t *testing.T) {
	good := func(i int) string { return fmt.Sprintf("2026-01-01T00:00:00.%09dZ stdout F line %d\n", i, i) }
	mark := func(n int) string {
		return fmt.Sprintf("croft: %d bytes of this log can't be read and are left out here", n)
	}
	for _, c := range []struct{ name, raw, want string }{
		{"none", good(1) + good(2), "line 1|line 2"},
		{"a line", good(1) + "garbage\n" + good(2), "line 1|" + mark(8) + "|line 2"},
		{"many lines", good(1) + strings.Repeat("garbage\n", 1000) + good(2), "line 1|" + mark(8000) + "|line 2"},
		{"zeros without an end", good(1) + strings.Repeat("\x00", 100<<10) + "\n" + good(2), "line 1|" + mark(100<<10+1) + "|line 2"},
		{"at the begin", "x\n" + good(2), mark(2) + "|line 2"},
		{"at the end", good(1) + "x\n", "line 1|" + mark(2)},
		{"only", strings.Repeat("x\n", 10), mark(20)},
		{"a line without its end", good(1) + "2026-01-01T00", "line 1"},
		{"empty", "", ""},
		{"empty lines", "\n\n" + good(1), mark(2) + "|line 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t)
			must(t, os.MkdirAll(filepath.Join(dir, "1-1"), 0o700))
			must(t, os.WriteFile(fileName(filepath.Join(dir, "1-1"), 7), []byte(c.raw), 0o600))
			lines, err := Last(dir, "1-1", 2000)
			if got := strings.Join(texts(lines), "|"); err != nil || got != c.want {
				t.Errorf("last: %.300q (%v)", got, err)
			}
			f := follow(t.Context(), dir, "1-1", 2000)
			until(t, "followed", func() bool { return f.text() == c.want })
			must(t, os.WriteFile(fileName(filepath.Join(dir, "1-1"), 8), []byte(good(3)), 0o600))
			until(t, "the next file", func() bool { return strings.HasSuffix("|"+f.text(), "|line 3") })
			must(t, os.RemoveAll(filepath.Join(dir, "1-1")))
			must(t, f.end(t))
		})
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("2026-01-01T00:00:00Z stdout F hello\n"), 3)
	f.Add([]byte("2026-01-01T00:00:00Z stdout F hello\nx\n\n\x00\n2026-01-01T00:00:00Z stderr P a"), 1)
	f.Add(bytes.Repeat([]byte("x"), 50000), 100)
	f.Fuzz(func(t *testing.T, raw []byte, n int) {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, "1-1"), 0o700))
		half := len(raw) / 2
		must(t, os.WriteFile(fileName(filepath.Join(dir, "1-1"), 0), raw[:half], 0o600))
		must(t, os.WriteFile(fileName(filepath.Join(dir, "1-1"), 1), raw[half:], 0o600))
		lines, err := Last(dir, "1-1", n)
		if err != nil || len(lines) > max(0, n) {
			t.Fatalf("%d lines of %d (%v)", len(lines), n, err)
		}
		all, err := Last(dir, "1-1", 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, l := range all {
			if strings.Contains(l.Text, "\n") || l.Stream != stdout && l.Stream != stderr {
				t.Fatalf("%+v", l)
			}
			size += len(l.Text)
		}
		if size > len(raw)+100*len(all) {
			t.Fatalf("%d bytes of %d", size, len(raw))
		}
	})
}

// The lines read are the lines written, however they are cut.
func FuzzRender(f *testing.F) {
	f.Add([]byte("one\ntwo\n\nthree"), 5)
	f.Add([]byte(strings.Repeat("é", 20000)+"\n"), 100)
	f.Fuzz(func(t *testing.T, data []byte, step int) {
		step = max(1, step)
		at := time.Unix(1, 2)
		var pieces [][]byte
		text := ""
		for from, end := 0, 0; from < len(data); {
			end = min(len(data), max(end, from)+step)
			out, used := render(nil, data[from:end], at, stdout, end == len(data))
			again, all := render(nil, data[from:from+used], at, stdout, true)
			if !bytes.Equal(out, again) || all != used {
				t.Fatalf("rendered again it is %q, was %q", again, out)
			}
			from += used
			pieces = append(pieces, out)
		}
		for line := range bytes.Lines(bytes.Join(pieces, nil)) {
			l, ok := parseRecord(bytes.TrimSuffix(line, []byte("\n")))
			if !ok || l.At != at.UnixNano() || len(l.Text) > maxText {
				t.Fatalf("%q", line)
			}
			text += l.Text
			if bytes.Contains(line[:len(stamp)+10], []byte(" F ")) {
				text += "\n"
			}
		}
		if text != string(data) {
			t.Fatalf("%q became %q", data, text)
		}
	})
}
