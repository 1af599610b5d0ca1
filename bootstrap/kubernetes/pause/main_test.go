package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// The test's program is the program under test when this variable is set.
const beThePause = "CROFT_TEST_PAUSE"

func TestMain(m *testing.M) {
	if os.Getenv(beThePause) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start starts the program as the first process of a PID namespace.
func start(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), beThePause+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline.C:
			t.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}

// children are the processes whose parent is pid, by their states ("Z": ended, not buried).
func children(t *testing.T, pid int) (states []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended meanwhile
		}
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if string(fields[1]) == strconv.Itoa(pid) {
			states = append(states, string(fields[0]))
		}
	}
	return states
}

// leave leaves children of a process of the pod that has died itself: they become the program's, which reaps them when
// they end.
func leave(t *testing.T, pid int) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	const orphans = 5
	const script = "for i in 1 2 3 4 5; do cat <&3 >/dev/null 2>&1 & done"
	parent := exec.Command("nsenter", "--target", strconv.Itoa(pid), "--pid", "sh", "-c", script)
	parent.ExtraFiles = []*os.File{read}
	if out, err := parent.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	read.Close()
	until(t, "the orphans are the program's children", func() bool { return len(children(t, pid)) == orphans })
	write.Close()
	until(t, "the orphans are reaped", func() bool { return len(children(t, pid)) == 0 })
}

func TestOrphansAreReaped(t *testing.T) {
	cmd := start(t)
	leave(t, cmd.Process.Pid)
	leave(t, cmd.Process.Pid)
}

func TestSignalsEndIt(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd := start(t)
			leave(t, cmd.Process.Pid) // it has asked for its signals before it reaps anybody
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("the program ended with %v, want code 0", err)
			}
		})
	}
}
