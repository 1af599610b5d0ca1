package logs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// This test binary is a carrier too, and a container: its first argument says so.
const (
	carry = "carry"
	write = "write"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 5 && os.Args[1] == carry:
		os.Exit(carryHere(os.Args[2:]))
	case len(os.Args) > 4 && os.Args[1] == write:
		os.Exit(writeHere(os.Args[2:]))
	case len(os.Args) > 2 && os.Args[1] == flood:
		os.Exit(floodHere(os.Args[2:]))
	case len(os.Args) > 4 && os.Args[1] == hoard:
		os.Exit(hoardHere(os.Args[2:]))
	}
	leave, err := cgroup.Nest("croft-test-" + randomName())
	if err != nil {
		panic(err)
	}
	status := m.Run()
	leave()
	os.Exit(status)
}

// carryHere is the carrier: RUN DIR SIZE FILES, and its ceiling if it has
// another one than is usual.
func carryHere(args []string) int {
	c := ServeConfig{RunDir: args[0], Dir: args[1], Version: "test", Level: zerolog.DebugLevel}
	_, _ = fmt.Sscan(strings.Join(args[2:], " "), &c.Size, &c.Files, &c.HardLimit)
	if err := Serve(context.Background(), c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// writeHere is a container with its shim: FIFO FROM TO. It opens both ends and
// writes numbered lines, in pieces that don't end where lines do.
func writeHere(args []string) int {
	out, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return 1
	}
	var from, to int
	_, _ = fmt.Sscan(args[1]+" "+args[2], &from, &to)
	var buf []byte
	for i := from; i < to; i++ {
		buf = append(buf, numbered(i)+"\n"...)
		if n := len(buf) - i%7; n > 1000*(1+i%3) {
			if _, err := out.Write(buf[:n]); err != nil {
				return 1
			}
			buf = append(buf[:0], buf[n:]...)
		}
	}
	if _, err := out.Write(buf); err != nil {
		return 1
	}
	return 0
}

func numbered(i int) string { return fmt.Sprintf("line %d %s", i, strings.Repeat("x", i%90)) }

func randomName() string {
	var raw [4]byte
	_, _ = rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t testing.TB, kind node.Kind, text string, err error) {
	t.Helper()
	if node.KindOf(err) != kind || err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v (%s), want %s with %q", err, node.KindOf(err), kind, text)
	}
}

// until polls until ok, or fails.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("not within 60 s: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// place for the folders of one test; short, for the socket's path.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "croft-log-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// site is a node with its carrier.
func site(t testing.TB, size int64, files int) Config {
	t.Helper()
	dir := folder(t)
	c := Config{RunDir: filepath.Join(dir, "run"), Dir: filepath.Join(dir, "logs"), Size: size, Files: files, Within: 30 * time.Second, Log: zerolog.Nop()}
	exe, err := os.Executable()
	must(t, err)
	c.Command = []string{exe, carry, c.RunDir, c.Dir, fmt.Sprint(size), fmt.Sprint(files)}
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

// started is the site's carrier.
func started(t testing.TB, c Config) *Carrier {
	t.Helper()
	out, err := Ensure(t.Context(), c)
	if err != nil {
		text, _ := os.ReadFile(filepath.Join(c.RunDir, "log", "log"))
		t.Fatalf("%v\n%s", err, text)
	}
	t.Cleanup(out.Close)
	return out
}

// opened is a FIFO as a shim has it.
func shim(t testing.TB, path string) *os.File {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func say(t testing.TB, to *os.File, text string) {
	t.Helper()
	_, err := to.WriteString(text)
	must(t, err)
}

func last(t testing.TB, c Config, id string, n int) []node.LogLine {
	t.Helper()
	lines, err := Last(c.Dir, id, n)
	must(t, err)
	return lines
}

func texts(lines []node.LogLine) []string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, l.Text)
	}
	return out
}

func (c *Carrier) kill(t testing.TB) {
	t.Helper()
	if err := unix.Kill(c.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
}
