package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/croft-edge/croft/internal/testing/vmguest/report"
	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// TestLife follows one VM: its start by an agent that is killed, its adoption, a crash of the guest, its end by force.
func TestLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	output := w.read("7-1")
	spec := w.spec()
	agent := w.startAgent(spec)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	boot, err := w.client().Wait(ctx)
	must(t, err)
	if boot.Hostname != "small" || boot.UserDataSHA256 == "" || boot.ConfigError != "" || boot.Boots != 1 || boot.CPUs != 1 {
		t.Errorf("the guest is %+v", boot)
	}
	for _, d := range boot.Disks {
		if d.Discard != 0 || d.Zero != 0 {
			t.Errorf("disk %s, which isn't on btrfs, takes discards of %d bytes and zeroing of %d", d.Serial, d.Discard, d.Zero)
		}
	}
	must(t, w.client().WriteDisk(ctx, 1<<20, []byte("kept")))

	must(t, agent.Process.Kill())
	_ = agent.Wait()
	c := w.config()
	c.PowerOff = 3 * time.Second
	m := w.open(c)
	info, err := m.Inspect("7-1")
	must(t, err)
	if info.State != node.VMRunning || info.Restarts != 0 || info.Hash != spec.Hash || info.Accelerator != "tcg" {
		t.Errorf("after the agent's kill the VM is %+v", info)
	}
	checkClock(t, w, boot)
	checkProcess(t, w, info)
	checkClaims(t, m, spec, info)
	checkUse(t, m, spec)

	// A guest that is switched off ends; one whose kernel panics resets its machine.
	for i, how := range []string{"off", "panic"} {
		restarts := uint64(i + 1)
		must(t, w.client().Post(ctx, "/crash?how="+how, nil))
		eventually(t, "the guest is started again", func() error {
			now, err := m.Inspect("7-1")
			if err != nil || now.Restarts != restarts || now.State != node.VMRunning || now.Ended == 0 || now.Cause == "" || now.PID == info.PID {
				return fmt.Errorf("it is %+v, %w", now, err)
			}
			return nil
		})
		boot, err = w.client().Wait(ctx)
		must(t, err)
		if kept, err := w.client().ReadDisk(ctx, 1<<20, 4); err != nil || string(kept) != "kept" || boot.Boots != i+2 {
			t.Errorf("after a crash the disk has %q, %v; it was booted %d times", kept, err, boot.Boots)
		}
	}
	must(t, w.client().Post(ctx, "/ignore-power", nil))
	must(t, m.Delete("7-1"))
	nothingLeft(t, w, m)
	if text := output.String(); !strings.Contains(text, "guest ready small "+guestAddress) || strings.Contains(text, secret) {
		t.Errorf("the console has no line of the guest, or the secret:\n%s", text)
	}
	if disk, err := os.ReadFile(spec.Disks[0].Path); err != nil || !bytes.Contains(disk, []byte("kept")) {
		t.Errorf("the disk of a deleted VM: %v", err)
	}
}

// checkClock: the guest has gone on, and its clock runs as fast as this machine's.
func checkClock(t *testing.T, w *world, first report.Boot) {
	t.Helper()
	look := func() (asked, answered time.Time, uptime float64) {
		asked = time.Now()
		boot, err := w.client().Boot(t.Context())
		must(t, err)
		if boot.Boots != 1 || boot.UptimeSeconds < first.UptimeSeconds {
			t.Errorf("the guest has not gone on: %+v", boot)
		}
		return asked, time.Now(), boot.UptimeSeconds
	}
	asked, answered, uptime := look()
	time.Sleep(2 * time.Second)
	askedAgain, answeredAgain, uptimeAgain := look()
	const exact = 0.02
	passed, least, most := uptimeAgain-uptime, askedAgain.Sub(answered).Seconds(), answeredAgain.Sub(asked).Seconds()
	if passed < least*(1-exact) || passed > most*(1+exact) {
		t.Errorf("%.2f to %.2f seconds have passed, in the guest %.2f", least, most, passed)
	}
}

// TestPowerOff: a guest that obeys its power button ends by itself.
func TestPowerOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	output := w.read("7-1")
	m := w.open(w.config())
	_, err := m.Run(w.spec())
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = w.client().Wait(ctx)
	must(t, err)
	must(t, m.Delete("7-1"))
	nothingLeft(t, w, m)
	eventually(t, "the guest says that it powers off", func() error {
		if text := output.String(); !strings.Contains(text, "guest power") {
			return errors.New(text)
		}
		return nil
	})
}

// checkProcess: QEMU runs as nobody else, without rights, within its control group, and its command line has no secret.
func checkProcess(t *testing.T, w *world, info node.VMInfo) {
	t.Helper()
	proc := "/proc/" + strconv.FormatUint(info.PID, 10)
	status, err := os.ReadFile(proc + "/status")
	must(t, err)
	uid := strconv.Itoa(firstUID)
	for _, line := range []string{
		"Uid:\t" + uid + "\t" + uid + "\t" + uid + "\t" + uid, "Gid:\t" + uid, "Groups:\t \n", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000",
		"CapBnd:", "NoNewPrivs:\t1", "Seccomp:\t2",
	} {
		if !strings.Contains(string(status), line) {
			t.Errorf("the process lacks %q:\n%s", line, status)
		}
	}
	line, err := os.ReadFile(proc + "/cmdline")
	must(t, err)
	environment, err := os.ReadFile(proc + "/environ")
	must(t, err)
	if bytes.Contains(line, []byte(secret)) || bytes.Contains(environment, []byte(secret)) || bytes.Contains(line, []byte(w.dir)) {
		t.Errorf("the command line has the secret or a path of the node: %q", line)
	}
	group, err := cgroup.At(w.cgroup + "/vm-7-1")
	must(t, err)
	if pids := group.PIDs(); len(pids) != 1 || uint64(pids[0]) != info.PID {
		t.Errorf("the control group has processes %v, want %d", pids, info.PID)
	}
	limits := cgroup.Limits{Memory: 1, PIDs: 1, CPUs: 1}
	if in := group.Limits(limits); in.Memory != 128<<20+192<<20+32<<20+512<<10+16<<20 || in.PIDs != mostPIDs+1 || in.CPUs != 1 {
		t.Errorf("the limits in force are %+v", in)
	}
}

// checkClaims: a running VM is left as it is by its own reservation, and refused to another.
func checkClaims(t *testing.T, m *Module, spec node.VMSpec, info node.VMInfo) {
	t.Helper()
	same, err := m.Run(spec)
	if err != nil || same.PID != info.PID {
		t.Errorf("the same VM again: %+v, %v", same, err)
	}
	spec.Hash = strings.Repeat("b", 64)
	if _, err := m.Run(spec); node.KindOf(err) != node.Exist {
		t.Errorf("another reservation: %v", err)
	}
	if now, err := m.Inspect("7-1"); err != nil || now.PID != info.PID {
		t.Errorf("after another reservation's attempt: %+v, %v", now, err)
	}
}

func checkUse(t *testing.T, m *Module, spec node.VMSpec) {
	t.Helper()
	stats, err := m.Stats("7-1")
	if err != nil || stats.CPU == 0 || stats.Memory == 0 || stats.Memory > stats.MemoryLimit || stats.MemoryLimit <= spec.Memory {
		t.Errorf("use: %+v, %v", stats, err)
	}
	status, err := m.Status()
	if err != nil || status.Accelerator != "tcg" || status.Why == "" || status.Emulator == "" || status.VMs != 1 {
		t.Errorf("status: %+v, %v", status, err)
	}
}

// nothingLeft: no process, file or control group of a VM is there, and its tap device is free.
func nothingLeft(t *testing.T, w *world, m *Module) {
	t.Helper()
	if exists, err := m.Exists("7-1"); err != nil || exists {
		t.Errorf("it exists: %v, %v", exists, err)
	}
	if err := m.Delete("7-1"); node.KindOf(err) != node.NotExist {
		t.Errorf("a second deletion: %v", err)
	}
	left, err := os.ReadDir(filepath.Join(w.dir, "run", "vm"))
	if err != nil || len(left) != 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	group, err := cgroup.At(w.cgroup + "/vm-7-1")
	must(t, err)
	if group.There() {
		t.Error("the control group is left")
	}
	tap, err := openTap(t.Context(), node.VMTap{Namespace: w.lab.Path(), Device: tapName})
	if err != nil {
		t.Errorf("the tap device isn't free: %v", err)
		return
	}
	must(t, tap.Close())
}

// TestTapDevicesAreFreeOnceTheyAreClosed: other programs are started all the time, and have copies of this process's descriptors for a moment. A
// tap device that was closed can be opened all the same.
func TestTapDevicesAreFreeOnceTheyAreClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var starting sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer starting.Wait()
	defer stop()
	for range 4 {
		starting.Go(func() {
			for ctx.Err() == nil {
				_ = exec.CommandContext(ctx, "true").Run()
			}
		})
	}
	for i := range 300 {
		tap, err := openTap(t.Context(), node.VMTap{Namespace: w.lab.Path(), Device: tapName})
		if err != nil {
			t.Fatalf("opening %d: %v", i, err)
		}
		must(t, tap.Close())
	}
}

// TestStartsThatFail: a VM that can't be started leaves nothing, and says why.
func TestStartsThatFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("7-1")
	m := w.open(w.config())
	for name, change := range map[string]func(*node.VMSpec){
		"no kernel":    func(s *node.VMSpec) { s.Kernel = "/nowhere/vmlinuz" },
		"no disk":      func(s *node.VMSpec) { s.Disks[0].Path = "/nowhere/disk" },
		"no tap":       func(s *node.VMSpec) { s.Tap.Device = "tap-other" },
		"no namespace": func(s *node.VMSpec) { s.Tap.Namespace = "/nowhere/net" },
	} {
		spec := w.spec()
		change(&spec)
		if _, err := m.Run(spec); node.KindOf(err) != node.NotExist {
			t.Errorf("%s: %v", name, err)
		}
		nothingLeft(t, w, m)
		w.read("7-1")
	}
	spec := w.spec()
	spec.Initrd = filepath.Join(w.dir, "secret")
	must(t, os.WriteFile(spec.Initrd, nil, 0o600))
	if _, err := m.Run(spec); node.KindOf(err) != node.Invalid || !strings.Contains(err.Error(), "read it") {
		t.Errorf("an initrd that only root may read: %v", err)
	}
	nothingLeft(t, w, m)
	w.read("7-1")
	tap, err := openTap(t.Context(), node.VMTap{Namespace: w.lab.Path(), Device: tapName})
	must(t, err)
	if _, err := m.Run(w.spec()); node.KindOf(err) != node.Busy {
		t.Errorf("a tap device that another process has: %v", err)
	}
	must(t, tap.Close())
	nothingLeft(t, w, m)
}

// TestFailedStartIsRepeated: a program that ends at once is no VM; what ran before is tried again, with a cause and a
// time.
func TestFailedStartIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("7-1")
	files := machine.Files(filepath.Join(w.dir, "run", "vm", "7-1"))
	spec := w.spec()
	spec.Kernel = "/nowhere/vmlinuz"
	r, err := machine.New(spec, firstUID).Begin("tcg")
	must(t, err)
	r, err = r.Began(machine.Process{PID: 1 << 22, Start: 1}, time.Now())
	must(t, err)
	must(t, files.Make(r, spec.Config))
	m := w.open(w.config())
	eventually(t, "it waits for its third start", func() error {
		info, err := m.Inspect("7-1")
		if err != nil || info.State != node.VMWaiting || info.Next == 0 || !strings.Contains(info.Cause, "/nowhere/vmlinuz") {
			return fmt.Errorf("it is %+v, %w", info, err)
		}
		return nil
	})
	info, err := m.Run(w.spec())
	if err != nil || info.State != node.VMRunning {
		t.Errorf("with a kernel that is there: %+v, %v", info, err)
	}
	must(t, m.Delete("7-1"))
	nothingLeft(t, w, m)
}

func TestSpec(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.open(w.config())
	for field, change := range map[string]func(*node.VMSpec){
		"ID":        func(s *node.VMSpec) { s.ID = "../7" },
		"User":      func(s *node.VMSpec) { s.User = "" },
		"CPU":       func(s *node.VMSpec) { s.CPU = 0 },
		"Memory":    func(s *node.VMSpec) { s.Memory = 128<<20 + 1 },
		"Kernel":    func(s *node.VMSpec) { s.Kernel = "vmlinuz" },
		"Initrd":    func(s *node.VMSpec) { s.Initrd = "initrd" },
		"Disks":     func(s *node.VMSpec) { s.Disks = make([]node.VMDisk, 9) },
		"Config":    func(s *node.VMSpec) { s.Config = make([]byte, 4<<20+1) },
		"Path":      func(s *node.VMSpec) { s.Disks[0].Path = "disk" },
		"Serial":    func(s *node.VMSpec) { s.Disks[0].Serial = "a,b" },
		"Serial is": func(s *node.VMSpec) { s.Disks[0].Serial = configSerial },
		"Device":    func(s *node.VMSpec) { s.Tap.Device = "a/b" },
		"Namespace": func(s *node.VMSpec) { s.Tap.Namespace = "net" },
		"MAC":       func(s *node.VMSpec) { s.Tap.MAC = "01:00:00:00:00:01" },
		"Arguments": func(s *node.VMSpec) { s.Arguments = "a\nb" },
		"Hash":      func(s *node.VMSpec) { s.Hash = "x" },
	} {
		spec := w.spec()
		change(&spec)
		if _, err := m.Run(spec); node.KindOf(err) != node.Invalid || !strings.Contains(err.Error(), strings.TrimSuffix(field, " is")) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestNewTapDevice: a VM whose tap device was made anew isn't connected, which is seen, and is started anew with it.
func TestNewTapDevice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("7-1")
	m := w.open(w.config())
	info, err := m.Run(w.spec())
	if err != nil || info.Drift != "" {
		t.Fatalf("it is %+v, %v", info, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = w.client().Wait(ctx)
	must(t, err)
	w.lab.Do(func() {
		link, err := netlink.LinkByName(tapName)
		must(t, err)
		must(t, netlink.LinkDel(link))
	})
	if got, err := m.Inspect("7-1"); err != nil || got.Drift != "its tap device is gone" {
		t.Errorf("without its tap device it is %+v, %v", got, err)
	}
	w.plug()
	all, err := m.List()
	if err != nil || len(all) != 1 || !strings.Contains(all[0].Drift, "made anew") || all[0].PID != info.PID {
		t.Errorf("with another tap device it is %+v, %v", all, err)
	}
	again, err := m.Run(w.spec())
	if err != nil || again.PID == info.PID || again.State != node.VMRunning || again.Restarts != 1 || again.Cause != "its tap device was made anew" {
		t.Errorf("run again it is %+v, %v", again, err)
	}
	boot, err := w.client().Wait(ctx)
	if err != nil || boot.Boots != 2 {
		t.Errorf("the guest is %+v, %v", boot, err)
	}
	if same, err := m.Run(w.spec()); err != nil || same.PID != again.PID || same.Drift != "" {
		t.Errorf("run a third time it is %+v, %v", same, err)
	}
	must(t, m.Delete("7-1"))
	nothingLeft(t, w, m)
}
