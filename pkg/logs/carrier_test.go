package logs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

func TestOutputIsRecorded(t *testing.T) {
	c := site(t, MinSize, 2)
	client := started(t, c)
	fifos, err := client.Open(t.Context(), "12-1", "")
	must(t, err)
	out, errs := shim(t, fifos.Stdout), shim(t, fifos.Stderr)
	before := time.Now()
	raw := "bytes \x00\xff\xfe\r and ünïcode"
	say(t, out, "hello\n\n"+raw+"\nnot yet")
	until(t, "three lines", func() bool { return len(last(t, c, "12-1", 10)) == 3 })
	say(t, out, " whole\n")
	until(t, "four lines", func() bool { return len(last(t, c, "12-1", 10)) >= 4 })
	say(t, errs, "oops\n")
	until(t, "five lines", func() bool { return len(last(t, c, "12-1", 10)) >= 5 })
	lines := last(t, c, "12-1", 10)
	got := strings.Join(texts(lines), "|")
	// The unfinished line comes in pieces when the machine is slow.
	if got = strings.Replace(got, "not yet| whole", "not yet whole", 1); got != "hello||"+raw+"|not yet whole|oops" {
		t.Errorf("%q", got)
	}
	for i, l := range lines {
		if want := map[bool]string{true: stderr, false: stdout}[i == len(lines)-1]; l.Stream != want || l.At < before.UnixNano() || l.At > time.Now().UnixNano() {
			t.Errorf("%+v, want %s and a time after %d", l, want, before.UnixNano())
		}
	}
	if got := texts(last(t, c, "12-1", 1)); !slices.Equal(got, []string{"oops"}) {
		t.Errorf("the last one: %q", got)
	}
	if got := last(t, c, "12-1", 0); len(got) != 0 {
		t.Errorf("none: %v", got)
	}
	say(t, out, "a prompt: ")
	until(t, "a line without an end", func() bool { return slices.Equal(texts(last(t, c, "12-1", 1)), []string{"a prompt: "}) })
	_, err = Last(c.Dir, "12-2", 1)
	wants(t, node.NotExist, "there are none", err)
	for _, id := range []string{"", "..", ".", "a/b", "../12-1", "-", strings.Repeat("x", 200), "a\n"} {
		_, err := client.Open(t.Context(), id, "")
		wants(t, node.Invalid, "as the ID of a container", err)
		wants(t, node.Invalid, "as the ID of a container", client.Drop(t.Context(), id, false))
		_, err = Last(c.Dir, id, 1)
		wants(t, node.Invalid, "as the ID of a container", err)
	}
}

func TestLongLinesAreSplit(t *testing.T) {
	c := site(t, MinSize, 2)
	fifos, err := started(t, c).Open(t.Context(), "1-1", "")
	must(t, err)
	long := strings.Repeat("é", 20<<10) + "!"
	say(t, shim(t, fifos.Stdout), "x"+long+"\nend\n")
	until(t, "all of it", func() bool {
		lines := texts(last(t, c, "1-1", 10))
		return len(lines) > 0 && lines[len(lines)-1] == "end"
	})
	lines := texts(last(t, c, "1-1", 10))
	if strings.Join(lines, "") != "x"+long+"end" || len(lines) < 4 {
		t.Errorf("%d lines of %d bytes", len(lines), len(strings.Join(lines, "")))
	}
	for _, l := range lines {
		if len(l) > maxText || strings.ToValidUTF8(l, "?") != l {
			t.Errorf("a piece of %d bytes ends %q", len(l), l[max(0, len(l)-4):])
		}
	}
	raw, err := os.ReadFile(filepath.Join(c.Dir, "1-1", "0.log"))
	must(t, err)
	if n := bytes.Count(raw, []byte(" stdout P ")); n != len(lines)-2 {
		t.Errorf("%d of %d pieces go on", n, len(lines))
	}
}

// The whole promise: a container that never stops writing, and a carrier that
// is killed again and again.
func TestKillingTheCarrierLosesAndDoublesNothing(t *testing.T) {
	const lines, kills = 150_000, 40
	c := site(t, 16<<20, 4)
	keeper := NewKeeper(c)
	t.Cleanup(keeper.Close)
	fifos, err := keeper.Open(t.Context(), "1-1", "")
	must(t, err)
	shim(t, fifos.Stdout)
	shim(t, fifos.Stderr)
	exe, _ := os.Executable()
	ended := make(chan error, 2)
	for _, fifo := range []string{fifos.Stdout, fifos.Stderr} {
		cmd := exec.Command(exe, write, fifo, "0", fmt.Sprint(lines))
		must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		go func() { ended <- cmd.Wait() }()
	}
	killed, left := 0, 2
	for left > 0 {
		client, err := keeper.Carrier(t.Context())
		must(t, err)
		select {
		case err := <-ended:
			must(t, err)
			left--
			continue
		case <-time.After(time.Duration(rand.Int64N(int64(20 * time.Millisecond)))):
		}
		if killed < kills || left == 2 {
			client.kill(t)
			killed++
		} else {
			select {
			case err := <-ended:
				must(t, err)
				left--
			case <-time.After(time.Minute):
				t.Fatal("the writers don't end")
			}
		}
	}
	t.Logf("killed %d times", killed)
	if killed < 5 {
		t.Errorf("killed %d times only", killed)
	}
	must(t, keeper.Drop(t.Context(), "1-1", true))
	checkNumbered(t, c, "1-1", lines)
}

// checkNumbered reads all files and expects each number once, in order, in
// both streams.
func checkNumbered(t *testing.T, c Config, id string, lines int) {
	t.Helper()
	r, err := newReader(filepath.Join(c.Dir, id), position{number: -1})
	must(t, err)
	defer r.close()
	next := map[string]int{}
	parts := map[string]string{}
	for {
		line, ok, err := r.next()
		must(t, err)
		if !ok {
			break
		}
		// A line that was unfinished for a second comes in pieces.
		text := parts[line.Stream] + line.Text
		if want := numbered(next[line.Stream]); text != want {
			if strings.HasPrefix(want, text) {
				parts[line.Stream] = text
				continue
			}
			t.Fatalf("%s has %.200q, want %q", line.Stream, text, want)
		}
		parts[line.Stream] = ""
		next[line.Stream]++
	}
	if next[stdout] != lines || next[stderr] != lines {
		t.Errorf("%v lines, want %d each", next, lines)
	}
}
