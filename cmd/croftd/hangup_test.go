package main_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
)

// hangups sends SIGHUP to a process, again and again, until end is closed or the process has ended. It closes ended then.
func hangups(p *nodetest.Process, end <-chan struct{}) (ended <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for p.Running() {
			p.Signal(syscall.SIGHUP)
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	return done
}

// helpers are the processes of croftd that a process has started.
func helpers(t *testing.T, w *nodetest.World, of int) map[int]string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	out := map[int]string{}
	for _, folder := range all {
		status, err := os.ReadFile(filepath.Join(folder, "status"))
		if err != nil {
			continue // it has ended
		}
		program, _ := os.Readlink(filepath.Join(folder, "exe"))
		if line, err := os.ReadFile(filepath.Join(folder, "cmdline")); err == nil && program == w.Croftd && strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", of)) {
			pid, err := strconv.Atoi(filepath.Base(folder))
			if err != nil {
				t.Fatal(err)
			}
			out[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
	}
	return out
}

// pending reports whether a process has a hangup that it hasn't got yet.
func pending(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	_, mask, _ := strings.Cut(string(status), "\nShdPnd:\t")
	mask, _, _ = strings.Cut(mask, "\n")
	set, err := strconv.ParseUint(mask, 16, 64)
	return err == nil && set&(1<<(syscall.SIGHUP-1)) != 0
}

// A hangup ends no process of croftd: not one that starts, not one that stops, and none of those that it has started.
func TestHangupsEndNothing(t *testing.T) {
	t.Parallel()
	w := nodetest.New(t, bins)
	n := w.NewNode("n")
	n.Start()
	w.Until(nodetest.Soon, "croftd starts", func() bool { return strings.Contains(n.Output(), `"starting"`) })
	ready := make(chan struct{})
	sent := hangups(n.Process, ready)
	n.WaitReady()
	close(ready)
	<-sent

	// The door's process serves, and so do the others: none of them is about to begin.
	served, err := tls.Dial("tcp", n.Door(), &tls.Config{InsecureSkipVerify: true}) // which node it is doesn't matter
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	before := helpers(t, w, n.PID())
	if !strings.Contains(fmt.Sprint(before), " door ") {
		t.Errorf("the door's process is none of %v", before)
	}
	for pid, line := range before {
		if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		w.Until(nodetest.Soon, "the hangup arrives", func() bool { return !pending(pid) })
	}
	n.Croftd("reload")
	if now := helpers(t, w, n.PID()); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("croftd's processes were %v, are %v", before, now)
	}

	stopped := hangups(n.Process, nil)
	n.Stop()
	<-stopped
}

// A process that waits for the bus, and doesn't know of any reload yet, lives through a hangup too.
func TestAHangupBeforeTheBus(t *testing.T) {
	t.Parallel()
	w := nodetest.New(t, bins)
	bus, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	p := w.Start("storage", w.Croftd, "storage", "--bus", "redis://"+bus.Addr().String(), "--state-dir", w.Path("s"), "--run-dir", w.Path("r"))
	c, err := bus.Accept() // it never gets an answer
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p.MustRun()
	p.Signal(syscall.SIGHUP)
	w.Until(nodetest.Soon, "the hangup arrives", func() bool { return !pending(p.PID()) })
	err = p.Wait(syscall.SIGTERM, 20*time.Second)
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signaled() || err != nil && ended == nil {
		t.Errorf("%v\n%s", err, p.Output())
	}
}

// The program of a hook gets the hangup as any other program does.
func TestHooksDontIgnoreHangups(t *testing.T) {
	t.Parallel()
	w := nodetest.New(t, bins)
	gate, release, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	defer release.Close()
	if _, err := release.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), w.Croftd, "hook", "/bin/sh", "-c", "kill -HUP $$; echo it goes on")
	cmd.ExtraFiles = []*os.File{gate}
	out, err := cmd.Output()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGHUP || len(out) > 0 {
		t.Errorf("a hook that gets a hangup ends with %v, and says %q", err, out)
	}
}
