package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/service"
)

// podTime is how long pods have between SIGTERM and SIGKILL when the machine is switched off: the node ends the machine 30
// seconds after it has pressed its power button.
const podTime = 6 * time.Second

// shutdownSignals are those that the commands reboot, halt and poweroff send to process 1 (busybox, init/halt.c).
func shutdownSignals() []os.Signal {
	return []os.Signal{unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2}
}

// watchPower switches the machine off when its power button is pressed, or by one of these commands, and starts it again by reboot.
func watchPower(runner *service.Runner) {
	var once sync.Once
	end := func(why string, how int) { once.Do(func() { go switchOff(runner, why, how) }) }
	guest.WatchPower(func() { end("the power button is pressed", unix.LINUX_REBOOT_CMD_POWER_OFF) }, func(err error) { say("%v", err) })
	orders := make(chan os.Signal, 1)
	signal.Notify(orders, shutdownSignals()...)
	go func() {
		for order := range orders {
			if order == unix.SIGTERM {
				end("somebody restarts the machine", unix.LINUX_REBOOT_CMD_RESTART)
			} else {
				end("somebody switches the machine off", unix.LINUX_REBOOT_CMD_POWER_OFF)
			}
		}
	}()
}

// switchOff ends pods, then the control plane with its store, and ends the machine: how is guest.Stop's.
func switchOff(runner *service.Runner, why string, how int) {
	say("%s: switching off", why)
	report("switching off")
	// Nothing starts pods again.
	runner.Stop("kubelet", "kube-proxy")
	endPods()
	var rest []string
	for _, name := range runner.Running() {
		if name != "console" {
			rest = append(rest, name)
		}
	}
	runner.Stop(rest...)
	unix.Sync()
	for _, at := range []string{"/etc", "/root", "/var"} {
		unix.Unmount(at, unix.MNT_DETACH) //nolint:errcheck // what is written is on the disk already
	}
	if err := unix.Mount("", dataAt, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		say("the data disk can't be made read-only: %v", err)
	}
	say("off")
	if err := guest.Stop(how); err != nil {
		say("cannot switch off: %v", err)
	}
}

// endPods asks the processes of pods to end, and makes those end that haven't after podTime.
func endPods() {
	asked := map[int]bool{} // many programs take a second SIGTERM for an order to end at once
	for end := time.Now().Add(podTime); ; {
		left := podProcesses()
		if len(left) == 0 {
			return
		}
		late := time.Now().After(end)
		for _, pid := range left {
			switch {
			case late:
				syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it may have ended
			case !asked[pid]:
				asked[pid] = true
				syscall.Kill(pid, syscall.SIGTERM) //nolint:errcheck // it may have ended
			}
		}
		if late {
			return
		}
		<-time.After(200 * time.Millisecond)
	}
}

// podProcesses are the processes in control groups of pods.
func podProcesses() []int {
	var out []int
	filepath.WalkDir("/sys/fs/cgroup/kubepods", func(path string, d os.DirEntry, err error) error { //nolint:errcheck // groups that go have no processes
		if err != nil || d.Name() != "cgroup.procs" {
			return nil
		}
		for pid := range strings.FieldsSeq(guest.ReadText(path)) {
			if n, err := strconv.Atoi(pid); err == nil && n > 1 {
				out = append(out, n)
			}
		}
		return nil
	})
	return out
}

// startConsole gives whoever may open the machine's console a shell of root there: the node lets the machine's owner only.
func startConsole(runner *service.Runner) error {
	shell, err := exec.LookPath("/bin/sh")
	if err != nil {
		return err
	}
	_, err = runner.Start(service.Spec{
		Name: "console", Command: []string{shell, "-c", "echo; echo 'Press Enter for a shell.'; read -r line; exec " + shell + " -l"},
		Env: []string{"TERM=vt100", "KUBECONFIG=/etc/kubernetes/admin.conf"}, Terminal: "/dev/ttyS0",
	})
	return err
}
