// Command init is the first process of a booted node, and the supervisor of its programs. As process 1 it reaps, and keeps itself running
// as a second process, which does all else: it mounts, loads drivers, brings up the network, finds the disk with the node's state, and
// runs redis, containerd and the parts of croftd. If the second process ends, process 1 starts it again: it ends what was left of the
// programs and starts them anew; workloads don't notice.
//
// It runs on a machine of its own only, and owns the whole of it. /sbin/init help lists its commands.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// program is this program on the root file system.
const program = "/sbin/init"

// Commands.
const (
	// runCommand does all but reap.
	runCommand = "run"
	// powerOffCommand and rebootCommand end the machine in order; upgradeCommand looks for another image now.
	powerOffCommand = "poweroff"
	rebootCommand   = "reboot"
	upgradeCommand  = "upgrade"
)

const help = `usage: init COMMAND
  poweroff   end the node's programs and switch the machine off
  reboot     end the node's programs and start the machine again
  upgrade    look for another image now, as the setting upgrade says
`

func main() {
	if os.Getpid() == 1 {
		reap()
	}
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command runs a command, and returns the exit status.
func command(args []string, out, errs io.Writer) int {
	if len(args) != 1 {
		_, _ = io.WriteString(errs, help)
		return 2
	}
	var err error
	switch args[0] {
	case runCommand:
		if os.Getppid() != 1 {
			_, _ = fmt.Fprintln(errs, "cannot run: process 1 starts this itself")
			return 2
		}
		err = run(context.Background())
	case powerOffCommand, rebootCommand, upgradeCommand:
		err = order(args[0])
	case "help", "--help", "-h":
		_, _ = io.WriteString(out, help)
	default:
		_, _ = io.WriteString(errs, help)
		return 2
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "init:", err)
		return 1
	}
	return 0
}

// after is a timer's channel; tests of what waits pass their own.
func after(d time.Duration) <-chan time.Time { return time.After(d) }
