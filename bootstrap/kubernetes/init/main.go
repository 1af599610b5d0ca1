// Command init is process 1 of the machines of croft's Kubernetes image. On the initrd it finds the root file system, and
// goes on there (stage 1). As process 1 of the root file system it reaps, and runs itself as the process that does
// all else: it mounts, applies the config disk, and keeps the machine's programs running. It runs in a virtual machine
// only, and owns the whole of it.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
)

const (
	// program is this program on the root file system.
	program = "/sbin/init"
	// runArgument has it do all but reap.
	runArgument = "run"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == runArgument && os.Getppid() == 1:
		run()
	case os.Getpid() != 1:
		fmt.Fprintln(os.Stderr, "cannot run as a program: this is process 1 of a virtual machine")
		os.Exit(1)
	case onInitrd():
		fatal(stage1())
	default:
		reap()
	}
}

// onInitrd reports whether the initrd is the root file system: only it has this file.
func onInitrd() bool {
	_, err := os.Stat("/init")
	return err == nil
}

// reap is process 1: it starts the process that does all else, and waits for every process that has lost its parent. If that
// process ends, the machine starts again: nothing else keeps its programs running.
func reap() {
	orders := make(chan os.Signal, 1)
	signal.Notify(orders, shutdownSignals()...)
	pid, err := syscall.ForkExec(program, []string{program, runArgument}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		fatal(err)
	}
	go func() {
		for order := range orders {
			syscall.Kill(pid, order.(syscall.Signal)) //nolint:errcheck // when it has ended the machine starts again
		}
	}()
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		if err == nil && ended == pid {
			fatal(fmt.Errorf("the machine's first program has ended: exit status %d, signal %v", status.ExitStatus(), status.Signal()))
		}
	}
}

// fatal shows an error, and starts the machine again after a while.
func fatal(err error) {
	say("cannot go on: %v", err)
	report("cannot boot: " + err.Error())
	<-time.After(5 * time.Second)
	if err := guest.Stop(unix.LINUX_REBOOT_CMD_RESTART); err != nil {
		say("cannot start again: %v", err)
	}
	select {}
}

// say writes a line to the console.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stdout, "croft: "+format+"\n", args...)
}
