package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain: this binary is also turn itself, with the slots of a folder.
func TestMain(m *testing.M) {
	if folder := os.Getenv("TURN_FOLDER"); folder != "" {
		code, err := run(folder, 0, os.Args[1:])
		if err != nil {
			os.Stderr.WriteString(err.Error())
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

const patience = time.Minute

func turn(t *testing.T, folder string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "TURN_FOLDER="+folder)
	return cmd
}

func started(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// appears waits until a file is there.
func appears(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
	t.Fatalf("there is no %s", path)
}

// TestTurns: two slots run two programs, a third waits until one has ended, also when turn itself was killed.
func TestTurns(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "slots")
	at := func(name string) string { return filepath.Join(dir, name) }
	program := func(name string) []string {
		return []string{"2", "sh", "-c", "echo > " + at(name) + "; exec sleep 1000"}
	}
	one, two, three := turn(t, folder, program("one")...), turn(t, folder, program("two")...), turn(t, folder, program("three")...)
	started(t, one)
	started(t, two)
	appears(t, at("one"))
	appears(t, at("two"))
	said, err := three.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	started(t, three)
	line := make([]byte, 512)
	if n, err := said.Read(line); err != nil || !strings.Contains(string(line[:n]), "waits until one has ended") {
		t.Fatalf("the third says %q, %v", line[:n], err)
	}
	if _, err := os.Stat(at("three")); err == nil {
		t.Error("three programs run in two slots")
	}
	if err := one.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = one.Wait()
	appears(t, at("three"))
	for _, cmd := range []*exec.Cmd{two, three} {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the program has the signal
	}
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"1", "sh", "-c", "echo said; exit 7"}, 7, "said\n"},
		{[]string{"1", "true"}, 0, ""},
		{[]string{"1", "sh", "-c", "kill -KILL $$"}, failed, "signal: killed"},
		{[]string{"1", "/nowhere"}, failed, "no such file"},
		{[]string{"0", "true"}, failed, "must be a number from 1 on"},
		{[]string{"1"}, failed, "usage"},
	} {
		cmd := turn(t, dir, c.args...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: exit code %d, output %q; want %d, %q", c.args, code, out, c.code, c.want)
		}
	}
}

// TestAWaitingTurnEnds: a signal ends turn while it waits.
func TestAWaitingTurnEnds(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "runs")
	first := turn(t, dir, "1", "sh", "-c", "echo > "+file+"; exec sleep 1000")
	started(t, first)
	appears(t, file)
	waits := turn(t, dir, "1", "true")
	said, err := waits.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	started(t, waits)
	line := make([]byte, 512)
	n, err := said.Read(line) // it says that it waits
	if err != nil || !strings.Contains(string(line[:n]), "waits until one has ended") {
		t.Fatalf("it says %q, %v", line[:n], err)
	}
	if err := waits.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(said)
	if err != nil || !strings.Contains(string(rest), "while it waited for its turn") {
		t.Errorf("it ends with %q, %v", rest, err)
	}
	_ = waits.Wait()
	if code := waits.ProcessState.ExitCode(); code != failed {
		t.Errorf("exit code %d", code)
	}
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
}

// TestItEndsWithItsParent: a program whose starter was killed frees its slot.
func TestItEndsWithItsParent(t *testing.T) {
	dir := t.TempDir()
	file, next := filepath.Join(dir, "runs"), filepath.Join(dir, "next")
	parent := exec.CommandContext(t.Context(), "sh", "-c", "/proc/"+strconv.Itoa(os.Getpid())+"/exe 1 sh -c 'echo > "+file+"; exec sleep 1000'; true")
	parent.Env = append(os.Environ(), "TURN_FOLDER="+dir)
	started(t, parent)
	appears(t, file)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	after := turn(t, dir, "1", "sh", "-c", "echo > "+next)
	started(t, after)
	appears(t, next)
	_ = after.Wait()
}
