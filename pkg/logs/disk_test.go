package logs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// mounted is a file system of its own for one container's logs.
func mounted(t *testing.T, at string, command ...string) {
	t.Helper()
	must(t, os.MkdirAll(at, 0o700))
	if out, err := exec.Command("mount", append(command, at)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func TestAFullDiskDropsAndSaysSo(t *testing.T) {
	dir := folder(t)
	files := filepath.Join(dir, "logs", "1-1")
	mounted(t, files, "-t", "tmpfs", "-o", "size=256k", "tmpfs")
	must(t, os.WriteFile(filepath.Join(files, "other"), make([]byte, 200<<10), 0o600))
	l := testLimits()
	l.size = 4 * MinSize
	c := here(t, dir, l)
	out := shim(t, c.place.paths().Stdout)
	const lines = 30_000
	written := make(chan error, 1)
	go func() {
		for i := range lines {
			if _, err := fmt.Fprintf(out, "line %d\n", i); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	select {
	case err := <-written:
		must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the container waits for its logs")
	}
	must(t, os.Remove(filepath.Join(files, "other")))
	logs := filepath.Join(dir, "logs")
	until(t, "a line after it", func() bool {
		say(t, out, "room again\n")
		got, err := Last(logs, "1-1", 1)
		return err == nil && len(got) == 1 && got[0].Text == "room again"
	})
	c.finish(t, true)
	got, err := Last(logs, "1-1", 2*lines)
	must(t, err)
	// Kept and dropped lines add up to all output.
	said, dropped := 0, 0
	note := regexp.MustCompile(`^croft: (\d+) lines \(\d+ bytes\) of stdout were dropped here: they could not be written$`)
	for _, line := range got {
		if m := note.FindStringSubmatch(line.Text); m != nil {
			n := 0
			_, _ = fmt.Sscan(m[1], &n)
			dropped += n
		} else if strings.HasPrefix(line.Text, "line ") {
			said++
			if line.Text != fmt.Sprint("line ", said+dropped-1) {
				t.Fatalf("%q after %d said and %d dropped", line.Text, said-1, dropped)
			}
		} else if line.Text != "room again" {
			t.Errorf("%q", line.Text)
		}
	}
	if dropped == 0 || said == 0 || said+dropped < lines {
		t.Errorf("%d said and %d dropped of %d", said, dropped, lines)
	}
}

// A disk that doesn't answer at all: a frozen file system.
func TestHungDisk(t *testing.T) {
	dir := folder(t)
	image := filepath.Join(dir, "image")
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 16<<20))
	if out, err := exec.Command("mkfs.ext4", "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	hung := filepath.Join(dir, "logs", "1-1")
	mounted(t, hung, "-o", "loop", image)
	l := testLimits()
	l.slow, l.size = 300*time.Millisecond, 4<<20 // all of it has room
	all := newContainers(filepath.Join(dir, "c"), filepath.Join(dir, "logs"), l, zerolog.Nop())
	t.Cleanup(all.close)
	slow, err := all.open(t.Context(), "1-1", "")
	must(t, err)
	quick, err := all.open(t.Context(), "2-1", "")
	must(t, err)
	out, other := shim(t, slow.Stdout), shim(t, quick.Stdout)
	logs := filepath.Join(dir, "logs")
	say(t, out, "before\n")
	until(t, "the first line", func() bool { lines, _ := Last(logs, "1-1", 9); return len(lines) == 1 })
	freeze := func(how string) {
		if text, err := exec.Command("fsfreeze", how, hung).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	freeze("--freeze")
	thawed := false
	defer func() {
		if !thawed {
			freeze("--unfreeze")
		}
	}()
	written := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 100 && err == nil; i++ {
			_, err = out.WriteString(strings.Repeat("while\n", 1000))
		}
		written <- err
	}()
	select {
	case err := <-written:
		must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the container waits for its disk")
	}
	say(t, other, "hello\n")
	until(t, "another container's line", func() bool { lines, _ := Last(logs, "2-1", 9); return len(lines) == 1 })
	if _, err := all.open(t.Context(), "3-1", ""); err != nil {
		t.Error(err)
	}
	freeze("--unfreeze")
	thawed = true
	until(t, "what was dropped is said", func() bool {
		say(t, out, "after\n")
		lines, _ := Last(logs, "1-1", 100_000)
		text := strings.Join(texts(lines), "|")
		return strings.HasPrefix(text, "before|while|") && strings.Contains(text, " of stdout were dropped here") && strings.HasSuffix(text, "|after")
	})
}

// Four that write as fast as they can, and one that says a word now and then.
func TestAFloodStarvesNobody(t *testing.T) {
	c := site(t, 4<<20, 2)
	client := started(t, c)
	flood := []byte(strings.Repeat("flood flood flood flood flood flood flood\n", 1500))
	stop := make(chan struct{})
	defer close(stop)
	for i := range 4 {
		fifos, err := client.Open(t.Context(), fmt.Sprint("flood-", i), "")
		must(t, err)
		out := shim(t, fifos.Stdout)
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := out.Write(flood); err != nil {
					return
				}
			}
		}()
	}
	fifos, err := client.Open(t.Context(), "quiet", "")
	must(t, err)
	out := shim(t, fifos.Stdout)
	worst := time.Duration(0)
	for i := range 20 {
		begin := time.Now()
		say(t, out, fmt.Sprintln("word", i))
		until(t, "the word", func() bool {
			lines, err := Last(c.Dir, "quiet", 1)
			return err == nil && len(lines) == 1 && lines[0].Text == fmt.Sprint("word ", i)
		})
		worst = max(worst, time.Since(begin))
	}
	info, err := client.Info(t.Context())
	must(t, err)
	t.Logf("the slowest word took %s; RssAnon %.1f MB", worst, float64(info.Memory)/1e6)
	if worst > 10*time.Second {
		t.Errorf("a word took %s", worst)
	}
	for i := range 4 {
		if total, _ := sizeOf(t, filepath.Join(c.Dir, fmt.Sprint("flood-", i))); total == 0 || total > 2*(4<<20) {
			t.Errorf("flood %d has %d bytes", i, total)
		}
	}
}
