package logs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// Streams wait for a turn of their own user. A container whose turn doesn't come
// isn't blocked: its output is dropped, and its log says so.
func TestAStreamWaitsForItsUsersTurn(t *testing.T) {
	dir := folder(t)
	l := testLimits()
	l.scheduler.turns = limit.NewLine(limit.Limit{Name: "test", Per: "user", Each: 1, Total: 3})
	l.slow = 300 * time.Millisecond
	all := newContainers(filepath.Join(dir, "c"), filepath.Join(dir, "logs"), l, zerolog.Nop())
	t.Cleanup(all.close)
	outs := map[string]*os.File{}
	for id, user := range map[string]string{"1-1": "a", "2-1": "b"} {
		fifos, err := all.open(t.Context(), id, user)
		must(t, err)
		outs[id] = shim(t, fifos.Stdout)
	}
	logs := filepath.Join(dir, "logs")
	says := func(id, text string) func() bool {
		return func() bool {
			lines, _ := Last(logs, id, 1)
			return len(lines) == 1 && lines[0].Text == text
		}
	}
	held := l.scheduler.turns.Ask("a", true)
	before := limit.Times()[limitTurns.Name]
	// More than a FIFO holds: a blocked writer would wait for ever.
	for range 100 {
		say(t, outs["1-1"], strings.Repeat("lost\n", 1000))
	}
	say(t, outs["2-1"], "hello\n")
	until(t, "the other user's line", says("2-1", "hello"))
	if lines, err := Last(logs, "1-1", 1); len(lines) > 0 || node.KindOf(err) != node.NotExist && err != nil {
		t.Errorf("a stream was written while its user had no turn: %v (%v)", lines, err)
	}
	if limit.Times()[limitTurns.Name] == before {
		t.Error("nothing was counted")
	}
	held.End()
	until(t, "a line after it", func() bool {
		say(t, outs["1-1"], "after\n")
		return says("1-1", "after")()
	})
	lines, err := Last(logs, "1-1", 100_000)
	must(t, err)
	lost, dropped := 0, 0
	for _, line := range lines {
		n := 0
		if _, err := fmt.Sscanf(line.Text, "croft: %d lines", &n); err == nil {
			dropped += n
		} else if line.Text == "lost" {
			lost++
		}
	}
	// A line or two were parted where the dropping began and ended.
	if dropped == 0 || dropped+lost < 100_000-2 {
		t.Errorf("%d dropped and %d kept of 100,000", dropped, lost)
	}
}

// A user's half lines beyond their share are written in pieces, and nobody
// else's are.
func TestHalfLinesBeyondTheShareAreWritten(t *testing.T) {
	dir := folder(t)
	l := testLimits()
	l.scheduler.halves = limit.Limit{Name: "test", Per: "user", Each: 2 * restSize, Unit: limit.Bytes}.Shares()
	all := newContainers(filepath.Join(dir, "c"), filepath.Join(dir, "logs"), l, zerolog.Nop())
	t.Cleanup(all.close)
	spools := map[string]string{}
	for id, user := range map[string]string{"1-1": "a", "2-1": "a", "3-1": "a", "4-1": "b"} {
		fifos, err := all.open(t.Context(), id, user)
		must(t, err)
		out := shim(t, fifos.Stdout)
		spools[id] = filepath.Join(filepath.Dir(fifos.Stdout), stdout+".spool")
		// Whole lines come with it, so that the half one isn't all there is.
		say(t, out, strings.Repeat("whole\n", 5000)+"half")
	}
	// What is over is flushed at once, the others' after a second.
	for id := range spools {
		until(t, "half a line of "+id, func() bool {
			lines, err := Last(filepath.Join(dir, "logs"), id, 1)
			return err == nil && len(lines) == 1 && lines[0].Text == "half"
		})
	}
	if n := limit.Times()["test"]; n != 1 {
		t.Errorf("the limit was reached %d times, want 1: by the third container of a", n)
	}
	if held := l.scheduler.halves.Total(); held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
}

// Whose container it is outlives the carrier.
func TestTheUserIsRemembered(t *testing.T) {
	dir := folder(t)
	first := newContainers(filepath.Join(dir, "c"), filepath.Join(dir, "logs"), testLimits(), zerolog.Nop())
	_, err := first.open(t.Context(), "1-1", "somebody")
	must(t, err)
	_, err = first.open(t.Context(), "2-1", "")
	must(t, err)
	_, err = first.open(t.Context(), "3-1", strings.Repeat("x", maxUser+1))
	wants(t, "Invalid", "its user has 129 bytes", err)
	first.close()
	second := newContainers(filepath.Join(dir, "c"), filepath.Join(dir, "logs"), testLimits(), zerolog.Nop())
	t.Cleanup(second.close)
	second.found(t.Context())
	if got := second.all["1-1"].quota.user + ", " + second.all["2-1"].quota.user; got != "somebody, container 2-1" {
		t.Errorf("%s", got)
	}
	if n := len(second.limits.scheduler.paces); n != 2 {
		t.Errorf("%d users have a pace", n)
	}
	for _, id := range []string{"1-1", "2-1"} {
		must(t, second.drop(t.Context(), id, false))
	}
	if n := len(second.limits.scheduler.paces); n != 0 {
		t.Errorf("%d users still have a pace", n)
	}
}

// Excess output is dropped from its beginning, up to the end of a line.
func TestASpoolIsTrimmed(t *testing.T) {
	const line = "123456789\n"
	for _, c := range []struct {
		name         string
		lines        int
		tail         string
		head         head
		most         int64
		dropped      int64
		droppedLines int64
		first        string
	}{
		{"little", 10, "", head{Number: -1}, 1000, 0, 0, line},
		{"too much", 10_000, "half", head{Number: -1}, 1000, 99_010, 9901, line},
		{"exactly a line", 10_000, "", head{Number: -1}, 1000, 99_000, 9900, line},
		{"some is done", 10_000, "", head{From: 10, To: 50_000, Number: -1}, 1000, 49_000, 4900, line},
		{"some is being written", 10_000, "", head{From: 10_000, To: 50_000, Number: 0}, 1000, 89_000, 8900, line},
		{"no end of a line", 0, strings.Repeat("x", 100_000), head{Number: -1}, 1000, 99_000, 0, "xxx"},
		{"dropped before", 10_000, "", head{Number: -1, Lines: 7, Bytes: 70}, 1000, 99_000, 9907, line},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(folder(t), "spool")
			s, err := openSpool(path)
			must(t, err)
			data := strings.Repeat(line, c.lines) + c.tail
			_, err = s.file.WriteAt([]byte(data), dataAt)
			must(t, err)
			must(t, s.note(c.head))
			s.close()
			dropped, left, err := trimmed(path, c.most)
			must(t, err)
			s, err = openSpool(path)
			must(t, err)
			defer s.close()
			rest, err := s.read(make([]byte, s.pending()), s.head.To)
			must(t, err)
			if dropped != c.dropped || left != int64(len(rest)) || s.head.Lines != c.droppedLines || s.head.Bytes != c.head.Bytes+c.dropped || !strings.HasPrefix(string(rest), c.first) || !strings.HasSuffix(data, string(rest)) {
				t.Errorf("dropped %d, head %+v, rest %.20q", dropped, s.head, rest)
			}
			if n := resident(t, path); n > dataAt+2*pageSize+max(c.most, int64(len(data))-s.head.From) {
				t.Errorf("it takes %d bytes", n)
			}
		})
	}
	// A file that can't be a spool doesn't keep others from being trimmed.
	dir := folder(t)
	for id, raw := range map[string]string{"1-1": "noise", "2-1": ""} {
		must(t, os.MkdirAll(filepath.Join(dir, id), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, id, "stdout.spool"), []byte(raw), 0o600))
	}
	must(t, os.Mkdir(filepath.Join(dir, "2-1", "stderr.spool"), 0o700))
	makeRoom(dir, DefaultHardLimit, zerolog.Nop())
}

// A file system without holes: the half line is written before the spool grows.
func TestASpoolWithoutHolesIsBounded(t *testing.T) {
	dir := folder(t)
	p := place{fifos: filepath.Join(dir, "c", "1-1"), files: filepath.Join(dir, "logs", "1-1")}
	must(t, p.make(""))
	l := testLimits()
	files, err := openFiles(p.files, l.size, l.files)
	must(t, err)
	c := &container{id: "1-1", place: p, files: files, quota: l.scheduler.of("1-1"), log: zerolog.Nop()}
	s, err := c.openStream(stdout, l)
	must(t, err)
	c.streams = []*stream{s}
	s.spool.solid = true
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.run(ctx) }()
	out := shim(t, p.paths().Stdout)
	worst := int64(0)
	for i := range 200 {
		say(t, out, fmt.Sprint(strings.Repeat(" whole ", 1000), "\nhalf ", i))
		worst = max(worst, resident(t, s.spool.file.Name()))
	}
	s.all.Store(true)
	cancel()
	<-ended
	c.close()
	if worst > dataAt+limitSpool.Each+2*pageSize {
		t.Errorf("the spool took %d bytes", worst)
	}
	lines, err := Last(filepath.Join(dir, "logs"), "1-1", 1)
	if err != nil || len(lines) != 1 || lines[0].Text != "half 199" {
		t.Errorf("%+v (%v)", lines, err)
	}
}
