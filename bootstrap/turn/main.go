// Command turn runs a program when it is its turn: of all programs that are run by it on a machine, at most SLOTS run at once.
//
//	turn SLOTS PROGRAM [ARGUMENT …]
//
// go test -exec runs each package's tests by it. So a second run of all tests beside the first shares the processors with it package
// by package: both take longer, and no test has less of the machine than in a run alone. Slots are locks of files, which end with the process.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/croft-edge/croft/pkg/filelock"
)

const (
	// failed is the exit code of turn's own errors.
	failed = 125
	// lookAgain is the pause between two looks for a free slot, and at the parent.
	lookAgain = 100 * time.Millisecond
	// sayAfter is how long it waits before it says so.
	sayAfter = time.Minute
)

func main() {
	code, err := run(filepath.Join(os.TempDir(), "croft-turns"), sayAfter, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "turn:", err)
	}
	os.Exit(code)
}

// run waits for a slot in the folder, runs the program, passes signals on to it, and returns its exit code. The program ends with
// whoever has started this process.
func run(folder string, patience time.Duration, args []string) (code int, err error) {
	if len(args) < 2 {
		return failed, errors.New("usage: turn SLOTS PROGRAM [ARGUMENT …]")
	}
	slots, err := strconv.Atoi(args[0])
	if err != nil || slots < 1 {
		return failed, fmt.Errorf("SLOTS is %q, must be a number from 1 on", args[0])
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	defer signal.Stop(signals)
	parent := os.Getppid()
	lock, err := wait(folder, slots, patience, parent, signals)
	if err != nil {
		return failed, err
	}
	defer func() { _ = lock.Release() }()
	return start(args[1:], parent, signals)
}

// wait returns the lock of a free slot. After a while it says that it waits.
func wait(folder string, slots int, patience time.Duration, parent int, signals <-chan os.Signal) (*filelock.Lock, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	said := time.After(patience)
	for os.Getppid() == parent {
		for i := range slots {
			lock, err := filelock.Try(filepath.Join(folder, strconv.Itoa(i)))
			if err == nil {
				return lock, nil
			}
			if filelock.Held(err) == nil {
				return nil, err
			}
		}
		select {
		case s := <-signals:
			return nil, fmt.Errorf("ended by signal %s while it waited for its turn", s)
		case <-said:
			fmt.Fprintf(os.Stderr, "turn: %d programs run; this one waits until one has ended (fuser %s/* shows them)\n", slots, folder)
		case <-time.After(lookAgain):
		}
	}
	return nil, errors.New("whoever has started it has ended")
}

// start runs the program to its end. It ends with this process.
func start(args []string, parent int, signals <-chan os.Signal) (code int, err error) {
	runtime.LockOSThread() // the program ends with the thread that starts it
	defer runtime.UnlockOSThread()
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // signals end it
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return failed, err
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s)
			case <-done:
				return
			case <-time.After(lookAgain):
				if os.Getppid() != parent {
					_ = cmd.Process.Signal(syscall.SIGTERM)
				}
			}
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return failed, err
	}
	return 0, nil
}
