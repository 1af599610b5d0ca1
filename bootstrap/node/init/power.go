package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/service"
	"github.com/croft-edge/croft/pkg/mounts"
)

const (
	// workloadTime is how long workloads have between SIGTERM and SIGKILL when the machine is switched off.
	workloadTime = 10 * time.Second
	// stopTime bounds all of an orderly end: then the machine ends all the same.
	stopTime = 90 * time.Second
	endPause = 100 * time.Millisecond
)

// power ends the machine, once.
type power struct {
	journal *journal
	runner  *service.Runner
	once    sync.Once

	mu sync.Mutex
	// before are called first: the watchdog watches no more, and what is to be kept is written down.
	before []func()
}

// atEnd has f called when the machine is about to end in order.
func (p *power) atEnd(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = append(p.before, f)
}

// order sends an order to process 1, which passes it on.
func order(name string) error {
	number, ok := map[string]syscall.Signal{rebootCommand: unix.SIGTERM, powerOffCommand: unix.SIGUSR2, upgradeCommand: unix.SIGHUP}[name]
	if !ok {
		return errors.Errorf("cannot give the order %q", name)
	}
	return errors.Wrap(syscall.Kill(1, number), "cannot give an order to init")
}

// pressed ends the machine when its power button is pressed.
func (p *power) pressed() { p.end("the power button was pressed", unix.LINUX_REBOOT_CMD_POWER_OFF) }

// listen ends the machine by an order; upgrade is called at an order for one.
func (p *power) listen(upgrade func()) {
	given := make(chan os.Signal, 4)
	signal.Notify(given, orders()...)
	go func() {
		for order := range given {
			switch order {
			case unix.SIGHUP:
				upgrade()
			case unix.SIGTERM:
				p.end("somebody restarts the machine", unix.LINUX_REBOOT_CMD_RESTART)
			default:
				p.end("somebody switches the machine off", unix.LINUX_REBOOT_CMD_POWER_OFF)
			}
		}
	}()
}

// end ends the node and the machine: how is guest.Stop's.
func (p *power) end(why string, how int) {
	p.once.Do(func() {
		go func() {
			p.journal.say("%s: the node stops", why)
			ctx, cancel := context.WithTimeout(context.Background(), stopTime)
			defer cancel()
			stopped := make(chan struct{})
			go func() { defer close(stopped); p.stop() }()
			select {
			case <-stopped:
			case <-ctx.Done():
				p.journal.say("the node doesn't stop within %s: the machine ends all the same", stopTime)
			}
			if err := guest.Stop(how); err != nil {
				p.journal.say("cannot end the machine: %v", err)
			}
		}()
	})
}

// stop ends the node's parts, then workloads, then what carries them, and unmounts what can be.
func (p *power) stop() {
	p.mu.Lock()
	before := p.before
	p.mu.Unlock()
	for _, f := range before {
		f()
	}
	p.runner.Close() // some may wait for others that stop now
	// The engine first: it would restore what goes.
	p.runner.Stop(engine)
	var parts []string
	for _, name := range p.runner.Running() {
		if !slices.Contains([]string{"redis", "containerd"}, name) {
			parts = append(parts, name)
		}
	}
	p.runner.Stop(parts...)
	p.endProcesses(workloadTime)
	p.runner.Stop("redis", "containerd")
	p.endProcesses(time.Second)
	p.unmount()
	p.journal.say("off")
}

// endProcesses asks all other processes to end, but for process 1, the kernel's and the runner's; those that haven't ended after a time
// are ended.
func (p *power) endProcesses(within time.Duration) {
	keep := map[int]bool{1: true, os.Getpid(): true}
	for _, s := range p.runner.States() {
		keep[s.PID] = true
	}
	asked := map[int]bool{} // many programs take a second SIGTERM for an order to end at once
	for end := time.Now().Add(within); ; <-after(endPause) {
		left := 0
		late := time.Now().After(end)
		for _, pid := range processes("/proc") {
			if keep[pid] {
				continue
			}
			left++
			switch {
			case late:
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			case !asked[pid]:
				asked[pid] = true
				_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended
			}
		}
		if left == 0 || late {
			return
		}
	}
}

// processes are the numbers of the processes that aren't threads of the kernel.
func processes(proc string) []int {
	entries, _ := os.ReadDir(proc)
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if line, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline")); err == nil && len(line) > 0 {
			out = append(out, pid)
		}
	}
	return out
}

// unmount unmounts what is on disks, the last first; what is still in use is made read-only.
func (p *power) unmount() {
	unix.Sync()
	all, err := mounts.Read()
	if err != nil {
		p.journal.say("%v", err)
		return
	}
	for _, m := range slices.Backward(all) {
		if !strings.HasPrefix(m.Source, "/dev/") || m.Path == "/" {
			continue
		}
		if unix.Unmount(m.Path, 0) == nil {
			continue
		}
		if err := unix.Mount("", m.Path, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			p.journal.say("%s is still in use: %v", m.Path, err)
		}
	}
	unix.Sync()
}
