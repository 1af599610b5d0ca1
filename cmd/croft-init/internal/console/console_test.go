package console_test

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croft-init/internal/console"
	"github.com/croft-edge/croft/cmd/croft-init/internal/reap"
)

const patience = 30 * time.Second

// open starts a shell on a terminal, and collects its processes.
func open(t *testing.T) (*console.Console, *bufio.Reader) {
	t.Helper()
	reaper := reap.New()
	ctx, cancel := context.WithCancel(context.Background())
	collected := make(chan struct{})
	go func() { defer close(collected); reaper.Run(ctx) }()
	c, err := console.Open(reaper, "/bin/bash", console.Size{Columns: 90, Rows: 30})
	if err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(2*patience, c.Close) // which ends any read that a test waits for
	t.Cleanup(func() { late.Stop(); c.Close(); cancel(); <-collected })
	return c, bufio.NewReader(c)
}

func typed(t *testing.T, c *console.Console, text string) {
	t.Helper()
	if err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// await reads until a line contains text, and returns that line.
func await(t *testing.T, r *bufio.Reader, text string) string {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if strings.Contains(line, text) {
			return strings.TrimSpace(line)
		}
		if err != nil {
			t.Fatalf("%q never came: %v", text, err)
		}
	}
}

func TestAShellHasATerminalOfItsOwn(t *testing.T) {
	c, r := open(t)
	typed(t, c, "stty size; echo $((40+2))/$TERM/$(tty)\n")
	await(t, r, "30 90")
	if line := await(t, r, "42/"); !strings.HasPrefix(line, "42/xterm-256color/dev/pts/") && !strings.HasPrefix(line, "42/xterm-256color//dev/pts/") {
		t.Errorf("it says %q", line)
	}
	if err := c.Resize(console.Size{Columns: 120, Rows: 40}); err != nil {
		t.Fatal(err)
	}
	typed(t, c, "stty size\n")
	await(t, r, "40 120")
	typed(t, c, "exit 7\n")
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("the shell must end")
	}
	if c.Code() != 7 {
		t.Errorf("the shell's code is %d, must be 7", c.Code())
	}
}

func TestInterruptReachesTheProgramInFront(t *testing.T) {
	c, r := open(t)
	// The program that prints the text is already in the foreground; a shell that is about to start one
	// may miss the key.
	typed(t, c, "bash -c \"echo be''gin; exec sleep 1000\"\n")
	await(t, r, "begin")
	typed(t, c, "\x03")
	typed(t, c, "echo co''de $?\n")
	await(t, r, "code 130")
}

// Processes that are stopped, ignore the hang-up, or are in the background are ended too.
func TestCloseEndsAllOfTheSession(t *testing.T) {
	c, r := open(t)
	typed(t, c, "nohup sleep 1001 >/dev/null 2>&1 & nohup sleep 1002 >/dev/null 2>&1 & kill -STOP $!; (sleep 1003; :) & echo pi''ds $$ $(jobs -p)\n")
	fields := strings.Fields(await(t, r, "pids "))
	if len(fields) != 5 {
		t.Fatalf("pids: %q", fields)
	}
	started := time.Now()
	c.Close()
	if took := time.Since(started); took > patience {
		t.Errorf("closing took %s", took)
	}
	for _, field := range fields[1:] {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d is still there", pid)
			}
		}
	}
}

func TestUnreadInputIsLost(t *testing.T) {
	c, r := open(t)
	typed(t, c, "stty raw -echo; echo re''ady; sleep 1000\n")
	await(t, r, "ready")
	block := make([]byte, 32<<10)
	started := time.Now()
	for range 20 { // far more than a terminal's buffer
		typed(t, c, string(block))
	}
	if took := time.Since(started); took > 2*patience {
		t.Errorf("it took %s: only the first may wait for long", took)
	}
}

func TestShellChoice(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "shell")
	plain := filepath.Join(dir, "plain")
	for path, mode := range map[string]os.FileMode{script: 0o755, plain: 0o644} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for wanted, want := range map[string]string{script: script, plain: "/bin/bash", dir: "/bin/bash", "": "/bin/bash", "bash": "/bin/bash", filepath.Join(dir, "none"): "/bin/bash"} {
		if got := console.FindShell(wanted); got != want {
			t.Errorf("SHELL=%s: %s, must be %s", wanted, got, want)
		}
	}
}

func TestTheEnvironmentIsTheContainers(t *testing.T) {
	got := console.Environment([]string{"A=1", "TERM=dumb", "SHELL=/x", "PATH=/opt/bin", "B=2=3"}, "/bin/sh")
	for _, want := range []string{"A=1", "B=2=3", "PATH=/opt/bin", "TERM=xterm-256color", "SHELL=/bin/sh", "HOME=/"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q lacks %s", got, want)
		}
	}
	if slices.Contains(got, "TERM=dumb") || slices.Contains(got, "SHELL=/x") {
		t.Errorf("%q has a variable twice", got)
	}
}

func TestProcessesWithHostileNames(t *testing.T) {
	for line, want := range map[string]int{
		"12 (sh) S 1 12 12 0 -1":         12,
		"12 (a) S 7 (b) S 1 13 14 0 -1":  14,
		"12 (sh) S 1":                    0,
		"garbage":                        0,
		"12 (sh) S 1 12 x 0":             0,
		"12 (\n) R 1 12) Z 1 2 99 34816": 99,
	} {
		if _, got := console.ParseStat(line); got != want {
			t.Errorf("%q: session %d, must be %d", line, got, want)
		}
	}
}
