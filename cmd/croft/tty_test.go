package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// TestATerminalIsPassedOnAndComesBack: a command has the terminal's size, also
// when that changes, and the terminal is as before when croft ends, also when it is ended.
func TestATerminalIsPassedOnAndComesBack(t *testing.T) {
	dir := t.TempDir()
	w, err := newWorld(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	if err := w.node.register(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := w.node.on(); err != nil {
		t.Fatal(err)
	}
	w.node.steady.Store(true)
	if w.node.door, err = w.node.openDoor(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	text := "project: p\nnode: " + w.node.key.ID() + "\nduration: 1d\nworkloads:\n  web:\n    container: {flist: https://hub.example.org/a.flist, capacity: {cpu: 1, memory: 64}, network: {network_id: net1, ips: [10.1.1.2]}}\n"
	if err := os.WriteFile(filepath.Join(dir, "croft.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(ctx context.Context, args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, "croft", args...) // see TestMain
		c.Dir, c.Env = dir, append(os.Environ(), "HOME="+dir, "CROFT_EXPLORER="+w.front.URL)
		return c
	}
	for _, args := range [][]string{{"id", "create"}, {"apply", "--wait", "--timeout", "30s"}} {
		if out, err := command(t.Context(), args...).CombinedOutput(); err != nil {
			t.Fatalf("croft %s: %v: %s", args[0], err, out)
		}
	}
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close(); _ = slave.Close() })
	modes := func() *unix.Termios {
		m, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	before := modes()
	lines := bufio.NewReader(master)
	for _, end := range []string{"resized", "signalled"} {
		if err := pty.Setsize(master, &pty.Winsize{Cols: 100, Rows: 40}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := command(ctx, "exec", "-it", "web", "--", end)
		c.Stdin, c.Stdout, c.Stderr = slave, slave, io.Discard
		// The terminal is the process's own, so that it hears of its size.
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, `["`+end+`"] [] true 100x40`) {
			t.Fatalf("%q, %v", line, err)
		}
		if reflect.DeepEqual(modes(), before) {
			t.Error("the terminal isn't raw")
		}
		if end == "resized" {
			if err := pty.Setsize(master, &pty.Winsize{Cols: 120, Rows: 50}); err != nil {
				t.Fatal(err)
			}
			if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "now 120x50") {
				t.Fatalf("%q, %v", line, err)
			}
		} else if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); end == "resized" && err != nil {
			t.Error(err)
		}
		if !reflect.DeepEqual(modes(), before) {
			t.Errorf("%s: the terminal isn't as it was", end)
		}
	}
}
