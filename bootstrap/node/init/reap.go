package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/cmdline"
	"github.com/croft-edge/croft/internal/nodeimage"
)

const (
	// endsAllowed is how often the second process may end within endsWithin before the machine starts again.
	endsAllowed = 5
	endsWithin  = 10 * time.Minute
	// fatalPause is how long an error of process 1 is shown.
	fatalPause = 30 * time.Second
)

// orders are the signals that process 1 passes on: those that busybox's reboot, poweroff and halt send (init/halt.c), and the one for an
// upgrade.
func orders() []os.Signal {
	return []os.Signal{unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGHUP}
}

// reap is process 1. It never returns: the kernel stops when process 1 ends.
func reap() {
	given := make(chan os.Signal, 4)
	signal.Notify(given, orders()...)
	go endTrial()
	var ends []time.Time
	for {
		pid, err := startRun()
		if err != nil {
			fatal(err)
		}
		status := wait(pid, given)
		fmt.Fprintf(os.Stderr, "croft: init has ended: exit status %d, signal %v; it starts again\n", status.ExitStatus(), status.Signal())
		if ends = recent(append(ends, time.Now()), time.Now()); len(ends) > endsAllowed {
			fatal(fmt.Errorf("init has ended %d times in %s", len(ends), endsWithin))
		}
		<-after(time.Second)
	}
}

// endTrial starts the machine again, with the old image, if it tries another one on which the second process hangs: that ends a trial in order
// itself.
func endTrial() {
	line, err := cmdline.Read()
	if err != nil || os.Getenv(nodeimage.SlotVariable) == "" || !line.Has(trialParameter) {
		return
	}
	<-after(trialTime + 2*stopTime - time.Duration(guest.UptimeSeconds()*float64(time.Second)))
	if !isTrialOver(readyMark) {
		fatal(fmt.Errorf("this image isn't ready after %s: the old one boots again", trialTime))
	}
}

// isTrialOver reports whether the node was ready in this boot.
func isTrialOver(mark string) bool {
	_, err := os.Stat(mark)
	return err == nil
}

// recent are the times that count at a time.
func recent(times []time.Time, now time.Time) []time.Time {
	out := times[:0:0]
	for _, t := range times {
		if now.Sub(t) < endsWithin {
			out = append(out, t)
		}
	}
	return out
}

func startRun() (pid int, err error) {
	return syscall.ForkExec(program, []string{program, runCommand}, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
}

// wait waits for every process that has lost its parent, until the second process ends.
func wait(pid int, given <-chan os.Signal) syscall.WaitStatus {
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-ended:
				return
			case order := <-given:
				if number, ok := order.(syscall.Signal); ok {
					_ = syscall.Kill(pid, number) // when it has ended it is started again
				}
			}
		}
	}()
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		if err == nil && got == pid && (status.Exited() || status.Signaled()) {
			return status
		}
	}
}

// fatal shows an error, and starts the machine again after a while.
func fatal(err error) {
	fmt.Fprintf(os.Stderr, "croft: cannot go on: %v; the machine starts again in %s\n", err, fatalPause)
	<-after(fatalPause)
	if err := guest.Stop(unix.LINUX_REBOOT_CMD_RESTART); err != nil {
		fmt.Fprintf(os.Stderr, "croft: cannot start again: %v\n", err)
	}
	select {}
}
