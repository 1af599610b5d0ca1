package logs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/limit"
)

// The first arguments of two more processes that this test binary is.
const (
	flood = "flood"
	hoard = "hoard"
)

// ceiling is the memory of a carrier under attack, in bytes; with the race
// detector a process has some 60 MiB of its own.
const ceiling = 128 << 20

// floodHere is containers that write half lines for ever: FIFO... No write of
// theirs ends where a line does, so there always is one that isn't whole.
func floodHere(fifos []string) int {
	text := []byte(strings.Repeat(strings.Repeat("half ", 1000)+"\n", 13) + "the begin of")
	ended := make(chan error, len(fifos))
	for _, path := range fifos {
		go func() {
			out, err := os.OpenFile(path, os.O_RDWR, 0)
			for err == nil {
				_, err = out.Write(text)
			}
			ended <- err
		}()
	}
	<-ended
	return 1
}

// hoardHere is a carrier of before there were bounds: RUN ID LIMIT. In the
// carrier's control groups it fills a spool until the kernel kills it.
func hoardHere(args []string) int {
	limit, _ := strconv.ParseUint(args[2], 10, 64)
	dir := kind().Folder(args[0])
	if missing, failed := cgroup.Put(os.Getpid(), dir.Group(), cgroup.Limits{Memory: limit}); len(failed) > 0 || len(missing) > 0 {
		fmt.Fprintln(os.Stderr, failed, missing)
		return 1
	}
	s, err := openSpool(filepath.Join(dir.Path("c"), args[1], stdout+".spool"))
	if err != nil {
		return 1
	}
	line := []byte(strings.Repeat("x", 999) + "\n")
	for at := s.size; ; at += int64(len(line)) {
		if _, err := s.file.WriteAt(line, dataAt+at); err != nil {
			return 1
		}
	}
}

// underCeiling is a site whose run folder is on a tmpfs, as a node's is, and
// whose carrier has that ceiling.
func underCeiling(t *testing.T, size int64, files int) Config {
	t.Helper()
	c := site(t, size, files)
	mounted(t, c.RunDir, "-t", "tmpfs", "-o", "size=1g", "tmpfs")
	c.Command = append(c.Command, fmt.Sprint(ceiling))
	// The mount, with the carrier's log, goes only after the carrier.
	t.Cleanup(func() {
		if text, err := os.ReadFile(filepath.Join(c.RunDir, "log", "log")); err == nil && t.Failed() {
			t.Logf("the carrier's log:\n%.20000s", text)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := TakeDown(ctx, c); err != nil {
			t.Error(err)
		}
	})
	return c
}

// runs is a process of this binary; end ends it.
func runs(t *testing.T, args ...string) (end func()) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe, args...)
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	end = func() { _ = cmd.Process.Kill(); <-ended }
	t.Cleanup(end)
	return end
}

// peak is the most memory that the carrier's control group ever had, in bytes.
func peak(t *testing.T, c Config, pid int) int64 {
	t.Helper()
	for _, group := range cgroup.Of(pid, kind().Folder(c.RunDir).Group()).Folders() {
		for _, file := range []string{"memory.max_usage_in_bytes", "memory.peak"} {
			if text, err := os.ReadFile(filepath.Join(group, file)); err == nil {
				n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
				must(t, err)
				return n
			}
		}
	}
	t.Fatal("nothing measures the carrier's memory")
	return 0
}

// resident is a file's size on disk, in bytes: holes take nothing.
func resident(t *testing.T, path string) int64 {
	t.Helper()
	var info unix.Stat_t
	must(t, unix.Stat(path, &info))
	return info.Blocks * 512
}

// One container never ends a line. It costs itself: the carrier lives, another
// container's lines are all there, a third can begin, and it can be deleted.
func TestEndlessHalfLinesCostOnlyTheirWriter(t *testing.T) {
	const lines, each = 40_000, 10_000
	c := underCeiling(t, 4<<20, 4)
	k := NewKeeper(c)
	t.Cleanup(k.Close)
	ctx, cancel := context.WithCancel(t.Context())
	kept := make(chan error, 1)
	go func() { kept <- k.Run(ctx) }()
	t.Cleanup(func() { cancel(); must(t, <-kept) })

	bad, err := k.Open(t.Context(), "1-1", "")
	must(t, err)
	good, err := k.Open(t.Context(), "2-1", "")
	must(t, err)
	outs := []*os.File{shim(t, good.Stdout), shim(t, good.Stderr)}
	first, err := k.Carrier(t.Context())
	must(t, err)
	runs(t, flood, bad.Stdout)
	spool := filepath.Join(c.RunDir, "log", "c", "1-1", stdout+".spool")
	// More than the ceiling goes through.
	files := filepath.Join(c.Dir, "1-1")
	until(t, "more than the ceiling is written", func() bool {
		list, _ := numbers(files)
		return len(list) > 0 && (list[len(list)-1]+1)*(4<<20) > ceiling*5/4 || first.ended()
	})
	if first.ended() {
		t.Fatalf("the flood has ended the carrier; the spool has %d MiB", resident(t, spool)>>20)
	}
	t.Logf("the spool takes %d KiB, the carrier's group had %d MiB at most", resident(t, spool)>>10, peak(t, c, first.PID())>>20)
	if n := resident(t, spool); n > 256<<10 {
		t.Errorf("the spool of who writes half lines takes %d bytes", n)
	}

	// Whatever is killed comes back while the flood goes on, and nobody else
	// loses a line.
	for from := 0; from < lines; from += each {
		for i := from; i < from+each; i++ {
			for _, out := range outs {
				say(t, out, numbered(i)+"\n")
			}
		}
		client, err := k.Carrier(t.Context())
		must(t, err)
		client.kill(t)
	}
	third, err := k.Open(t.Context(), "3-1", "")
	must(t, err)
	say(t, shim(t, third.Stdout), "here\n")
	until(t, "a container begins during the flood", func() bool {
		got, err := Last(c.Dir, "3-1", 1)
		return err == nil && len(got) == 1 && got[0].Text == "here"
	})
	must(t, k.Drop(t.Context(), "2-1", true))
	checkNumbered(t, c, "2-1", lines)
	// Its writer still writes: what began to be deleted is.
	must(t, k.Drop(t.Context(), "1-1", false))
	if ids, err := k.List(t.Context()); err != nil || strings.Join(ids, " ") != "3-1" {
		t.Errorf("%v (%v)", ids, err)
	}
	for _, left := range []string{files, filepath.Dir(spool)} {
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("%s stays: %v", left, err)
		}
	}
}

// What an earlier carrier has hoarded has all memory that the next one may
// use. That one makes room before it begins, and says what it dropped.
func TestACarrierComesBackWithRoom(t *testing.T) {
	c := underCeiling(t, 4<<20, 2)
	first := started(t, c)
	fifos, err := first.Open(t.Context(), "1-1", "")
	must(t, err)
	out := shim(t, fifos.Stdout)
	say(t, out, "one\n")
	until(t, "the first line", func() bool { lines, _ := Last(c.Dir, "1-1", 9); return len(lines) == 1 })
	first.kill(t)
	exe, err := os.Executable()
	must(t, err)
	spool := filepath.Join(c.RunDir, "log", "c", "1-1", stdout+".spool")
	if text, err := exec.Command(exe, hoard, c.RunDir, "1-1", fmt.Sprint(ceiling)).CombinedOutput(); err == nil || err.Error() != "signal: killed" || resident(t, spool) < ceiling/2 {
		t.Fatalf("the group isn't full: %v %s, %d bytes", err, text, resident(t, spool))
	}
	hoarded := int64(0)
	if info, err := os.Stat(spool); err == nil {
		hoarded = (info.Size() - dataAt) / 1000
	}
	second := started(t, c)
	t.Logf("%d lines were hoarded", hoarded)
	other, err := second.Open(t.Context(), "2-1", "")
	must(t, err)
	say(t, shim(t, other.Stdout), "hello\n")
	say(t, out, "after\n")
	until(t, "lines of both", func() bool {
		a, _ := Last(c.Dir, "1-1", 1)
		b, _ := Last(c.Dir, "2-1", 1)
		// The kernel killed within a line, whose end this may be.
		return len(a) == 1 && strings.HasSuffix(a[0].Text, "after") && len(b) == 1
	})
	lines, err := Last(c.Dir, "1-1", 10_000)
	must(t, err)
	dropped, kept, said := 0, 0, false
	for _, l := range lines {
		switch {
		case strings.HasPrefix(l.Text, "croft: "):
			_, err := fmt.Sscanf(l.Text, "croft: %d lines", &dropped)
			said = err == nil && strings.Contains(l.Text, "of stdout were dropped here")
		case strings.HasPrefix(l.Text, "xxx"):
			kept++
		}
	}
	// "one" counts as dropped too, and the line that the hoarder was killed in as kept.
	if !said || kept < 100 || dropped+kept < int(hoarded) || dropped+kept > int(hoarded)+2 {
		t.Errorf("dropped %d and kept %d of %d lines, said %v", dropped, kept, hoarded, said)
	}
	must(t, second.Drop(t.Context(), "1-1", false))
	if first.PID() == second.PID() || second.ended() {
		t.Error("the second carrier has ended")
	}
}

func (c *Carrier) ended() bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// A user with many containers, none of which ends a line, has a share: memory
// stays, and another user's lines come as ever.
func TestManyHalfWritersHaveOneUsersShare(t *testing.T) {
	const containers, lines = 100, 20_000
	c := underCeiling(t, MinSize, 2)
	client := started(t, c)
	args := []string{flood}
	for i := range containers {
		fifos, err := client.Open(t.Context(), fmt.Sprint("bad-", i), "bad")
		must(t, err)
		args = append(args, fifos.Stdout, fifos.Stderr)
	}
	good, err := client.Open(t.Context(), "2-1", "good")
	must(t, err)
	outs := []*os.File{shim(t, good.Stdout), shim(t, good.Stderr)}
	runs(t, args...)
	until(t, "all of them write", func() bool {
		for i := range containers {
			if list, _ := numbers(filepath.Join(c.Dir, fmt.Sprint("bad-", i))); len(list) == 0 {
				return false
			}
		}
		return true
	})
	for i := range lines {
		for _, out := range outs {
			say(t, out, numbered(i)+"\n")
		}
	}
	counted := limit.Times()[limitHalves.Name]
	info, err := client.Info(t.Context())
	must(t, err)
	// What the carrier counts is in this process's metrics, once.
	_, err = client.Info(t.Context())
	must(t, err)
	if counted = limit.Times()[limitHalves.Name] - counted; info.Limits[limitHalves.Name] == 0 || counted < info.Limits[limitHalves.Name] || counted > 1000*info.Limits[limitHalves.Name] {
		t.Errorf("the carrier counts %v, here %d more are counted", info.Limits, counted)
	}
	if info.Containers != containers+1 || client.ended() {
		t.Errorf("the carrier has ended, or lost a container: %+v", info)
	}
	t.Logf("RssAnon %d MiB; the carrier's group had %d MiB at most; limits %v", info.Memory>>20, peak(t, c, client.PID())>>20, info.Limits)
	must(t, client.Drop(t.Context(), "2-1", true))
	// Two files of 128 KiB don't keep all: the last ones are there, in order.
	got, err := Last(c.Dir, "2-1", 200)
	must(t, err)
	next := map[string]int{}
	for _, l := range got {
		var n int
		if _, err := fmt.Sscanf(l.Text, "line %d", &n); err != nil || next[l.Stream] != 0 && n != next[l.Stream] {
			t.Fatalf("%q after line %d", l.Text, next[l.Stream]-1)
		}
		next[l.Stream] = n + 1
	}
	if next[stdout] != lines && next[stderr] != lines {
		t.Errorf("the last lines are %v", next)
	}
	for i := range containers {
		must(t, client.Drop(t.Context(), fmt.Sprint("bad-", i), false))
	}
}
