// Command init is the first and only process of the small guest that tests boot (see vmguest): it loads kernel
// modules, applies the config disk, and serves HTTP, the serial console and the power button. It runs as process 1
// in a virtual machine only, on the initrd, and owns the whole machine. Each step is a line on the console.
package main

import (
	"fmt"
	"os"
	"sync/atomic"

	"github.com/croft-edge/croft/internal/guest"
)

// guestMachine is the machine.
type guestMachine struct {
	config configured
	disks  disks
	// ready is the uptime when HTTP was served first, in seconds.
	ready float64
	// hung guests do nothing any more; deaf ones ignore the power button.
	hung, deaf atomic.Bool
	// eaten is memory that stays used.
	eaten [][]byte
}

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "cannot run as a program: this is process 1 of a guest")
		os.Exit(1)
	}
	g := &guestMachine{}
	if err := g.boot(); err != nil {
		say("failed: %v", err)
	}
	// Process 1 never ends: the kernel would panic.
	select {}
}

// boot goes on where a step failed, if what follows is of use.
func (g *guestMachine) boot() error {
	if err := guest.MountKernel(); err != nil {
		return err
	}
	if err := guest.LoadModules("/modules"); err != nil {
		say("cannot load all modules: %v", err)
	}
	go g.watchPower()
	go g.serveConsole()
	g.disks = findDisks()
	g.config = readConfig(g.disks.config)
	g.applyConfig()
	g.disks.countBoot()
	return g.serve()
}

// say writes a line to the console.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stdout, "guest "+format+"\n", args...)
}
