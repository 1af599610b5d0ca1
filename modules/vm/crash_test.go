package vm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/vm/launch"
	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/modules/vm/qemu"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// TestAgentIsKilledAtAnyTime: whenever the agent is killed while it starts a VM, the next one finds it or nothing, runs it once, and can
// delete it.
func TestAgentIsKilledAtAnyTime(t *testing.T) {
	t.Parallel()
	const lives = 8
	w := newWorld(t)
	w.read("7-1")
	spec := w.spec()
	longest := time.Duration(0)
	for life := range lives {
		cmd := w.prepareAgent(spec)
		begin := time.Now()
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		if life == 0 { // the time of a whole start
			_, err := out.Read(make([]byte, 1))
			must(t, err)
			longest = time.Since(begin)
		} else {
			time.Sleep(rand.N(longest))
		}
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()

		c := w.config()
		c.PowerOff = time.Millisecond
		m := w.open(c)
		eventually(t, "it runs", func() error {
			info, err := m.Run(spec)
			if err == nil && info.State != node.VMRunning {
				err = fmt.Errorf("it is %+v", info)
			}
			return err
		})
		info, err := m.Inspect("7-1")
		must(t, err)
		group, err := cgroup.At(w.cgroup + "/vm-7-1")
		must(t, err)
		// A process enters its control group soon after it has written down who it is.
		eventually(t, "it is in its control group", func() error {
			if pids := group.PIDs(); len(pids) != 1 || uint64(pids[0]) != info.PID {
				return fmt.Errorf("life %d: processes %v run the VM, want %d", life, pids, info.PID)
			}
			return nil
		})
		must(t, m.Delete("7-1"))
		nothingLeft(t, w, m)
		m.Close()
		w.read("7-1")
	}
}

// TestDeletionIsResumed: an agent that is stopped while it waits for a guest's power-off is followed by one that goes on.
func TestDeletionIsResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("7-1")
	first := w.open(w.config())
	_, err := first.Run(w.spec())
	must(t, err)
	deleted := make(chan error, 1)
	go func() { deleted <- first.Delete("7-1") }()
	eventually(t, "it is being deleted", func() error {
		if info, err := first.Inspect("7-1"); err != nil || info.State != node.VMStopping {
			return fmt.Errorf("it is %+v, %w", info, err)
		}
		return nil
	})
	first.Close()
	if err := <-deleted; node.KindOf(err) != node.Transient {
		t.Errorf("the deletion of an agent that ends: %v", err)
	}
	c := w.config()
	c.PowerOff = time.Millisecond
	second := w.open(c)
	eventually(t, "the deletion goes on by itself", func() error {
		if exists, err := second.Exists("7-1"); err != nil || exists {
			return fmt.Errorf("it exists: %v, %w", exists, err)
		}
		return nil
	})
	nothingLeft(t, w, second)
}

// TestTakeDown: after it no VM runs, and disks are there.
func TestTakeDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("7-1")
	m := w.open(w.config())
	spec := w.spec()
	_, err := m.Run(spec)
	must(t, err)
	m.Close()
	c := w.config()
	c.PowerOff = time.Millisecond
	must(t, TakeDown(t.Context(), c))
	nothingLeft(t, w, w.open(w.config()))
	if _, err := os.Stat(spec.Disks[0].Path); err != nil {
		t.Error(err)
	}
}

// TestBadEmulators: without QEMU, and with one that ends at once, a start fails with the reason and leaves nothing.
func TestBadEmulators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ends := filepath.Join(w.dir, "ends")
	must(t, os.WriteFile(ends, []byte("#!/bin/sh\nif [ \"$1\" = --version ]; then echo QEMU emulator version 9.0; exit 0; fi\nexit 3\n"), 0o755))
	must(t, os.Chmod(w.dir, 0o755))
	for program, want := range map[string]string{ends: "exit status 3", "qemu-nowhere": "qemu-system-x86"} {
		w.read("7-1")
		c := w.config()
		c.Program = program
		m := w.open(c)
		if _, err := m.Run(w.spec()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", program, err)
		}
		status, err := m.Status()
		if (program == "qemu-nowhere") != (status.Error != "") || err != nil {
			t.Errorf("%s: status %+v, %v", program, status, err)
		}
		nothingLeft(t, w, m)
	}
}

// TestLateProcessGivesUp: a process of a start that is over, or of a second one, never becomes the VM.
func TestLateProcessGivesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	output := w.read("7-1")
	at := machine.Files(filepath.Join(w.dir, "run", "vm", "7-1"))
	starting, err := machine.New(w.spec(), firstUID).Begin("tcg")
	must(t, err)
	waiting, err := starting.Failed("late", time.Now(), machine.Pauses())
	must(t, err)
	again, err := waiting.Begin("tcg")
	must(t, err)
	for _, now := range []machine.Record{waiting, again, starting.Stop()} {
		must(t, at.Make(now, nil))
		console, err := fifos{filepath.Join(w.dir, "logs")}.Open(t.Context(), "7-1", "user")
		must(t, err)
		files := &launch.Files{}
		files.Add(console)
		ended, err := launch.Start([]string{"/proc/self/exe", become}, launch.Order{
			Files: at, Attempt: starting.Attempt, Program: "/bin/true", UID: firstUID, Cgroup: w.cgroup + "/vm-7-1",
		}, files, console)
		must(t, err)
		files.Close()
		if err := <-ended; err == nil {
			t.Errorf("a process of start %d has become a VM that is %s with start %d", starting.Attempt, now.Phase, now.Attempt)
		}
	}
	eventually(t, "the processes say why", func() error {
		if n := strings.Count(output.String(), "start 1 is over"); n != 3 {
			return fmt.Errorf("%d of 3: %s", n, output)
		}
		return nil
	})
}

// TestUnreadableRecord: a VM whose record can't be read runs on, keeps its user ID for itself, and can be deleted.
func TestUnreadableRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("7-1")
	m := w.open(w.config())
	spec := w.spec()
	info, err := m.Run(spec)
	must(t, err)
	m.Close()
	must(t, os.WriteFile(filepath.Join(w.dir, "run", "vm", "7-1", "record"), []byte("{"), 0o600))
	c := w.config()
	c.PowerOff = time.Millisecond
	m = w.open(c)
	if now, err := m.Inspect("7-1"); err != nil || now.State != node.VMBroken || now.Cause == "" {
		t.Errorf("it is %+v, %v", now, err)
	}
	if _, err := m.Run(spec); node.KindOf(err) != node.Busy {
		t.Errorf("running it: %v", err)
	}
	if r, exists := m.table.read("7-1"); !exists || r.UID != firstUID {
		t.Errorf("its user is %d", r.UID)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", info.PID)); err != nil {
		t.Errorf("its process is gone: %v", err)
	}
	must(t, m.Delete("7-1"))
	nothingLeft(t, w, m)
}

// TestRemainsOfANewVM: what an agent has made of a VM before it was killed, without a record, may have a secret, and goes.
func TestRemainsOfANewVM(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	folder, err := machine.OpenFolder(filepath.Join(w.dir, "run", "vm"))
	must(t, err)
	must(t, os.Mkdir(string(folder.Of("7-1")), 0o700))
	must(t, folder.Of("7-1").WriteConfig([]byte("secret")))
	must(t, os.Mkdir(string(folder.Of("7-2")), 0o700))
	lock, err := folder.Of("7-2").Hold(t.Context())
	must(t, err)
	w.open(w.config())
	if _, err := os.Stat(string(folder.Of("7-1"))); !os.IsNotExist(err) {
		t.Errorf("the remains: %v", err)
	}
	if _, err := os.Stat(string(folder.Of("7-2"))); err != nil {
		t.Errorf("a folder that a process has locked: %v", err)
	}
	must(t, lock.Release())
}

// TestMissingConfigDisk: a VM that has a config disk isn't started without it.
func TestMissingConfigDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	folder, err := machine.OpenFolder(filepath.Join(w.dir, "run", "vm"))
	must(t, err)
	r, at := machine.New(w.spec(), firstUID), folder.Of("7-1")
	must(t, at.Make(r, w.spec().Config))
	must(t, os.Remove(at.Config()))
	console, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	must(t, err)
	if files, err := openFiles(t.Context(), r, at, console, &qemu.Machine{}); node.KindOf(err) != node.Transient || !strings.Contains(err.Error(), "config disk") {
		t.Errorf("its files are %v, %v", files, err)
	}
	if drift := infoOf(r, at).Drift; drift != "its config disk is gone" {
		t.Errorf("its drift is %q", drift)
	}
	must(t, at.WriteConfig(w.spec().Config))
	if drift := infoOf(r, at).Drift; drift != "" {
		t.Errorf("with its config disk its drift is %q", drift)
	}
}

// TestProcessWritesNoFile: a VM's process writes no file but those that it was given, wherever everybody may.
func TestProcessWritesNoFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	folder, err := machine.OpenFolder(filepath.Join(w.dir, "run", "vm"))
	must(t, err)
	r, err := machine.New(w.spec(), firstUID).Begin("tcg")
	must(t, err)
	must(t, folder.Of("7-1").Make(r, nil))
	shared := filepath.Join(w.dir, "shared")
	must(t, os.Mkdir(shared, 0o700))
	must(t, os.Chmod(shared, 0o777))
	must(t, os.Chmod(w.dir, 0o755))
	name := filepath.Base(w.dir)
	output, err := os.Create(filepath.Join(w.dir, "output"))
	must(t, err)
	defer output.Close()
	script := "for d in " + shared + " /tmp /var/tmp /dev/shm; do echo x > $d/" + name + ".x && echo wrote in $d; mkdir $d/" + name + ".d && echo made in $d; done; echo x >> /dev/null && echo done"
	ended, err := launch.Start([]string{"/proc/self/exe", become}, launch.Order{
		Files: folder.Of("7-1"), Attempt: r.Attempt, Program: "/bin/sh", Arguments: []string{"-c", script}, UID: firstUID,
		Cgroup: w.cgroup + "/vm-7-1", Limits: cgroup.Limits{Memory: 64 << 20, PIDs: 20},
	}, &launch.Files{}, output)
	must(t, err)
	<-ended
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		_ = os.Remove(filepath.Join(dir, name+".x"))
		_ = os.Remove(filepath.Join(dir, name+".d"))
	}
	text, err := os.ReadFile(output.Name())
	must(t, err)
	if !strings.Contains(string(text), "\ndone\n") || strings.Contains(string(text), "wrote in") || strings.Contains(string(text), "made in") {
		t.Errorf("the process says:\n%s", text)
	}
}

// stuckLogs are logs that can't be dropped while they are stuck.
type stuckLogs struct {
	fifos
	stuck atomic.Bool
}

// Drop implements Logs.
func (l *stuckLogs) Drop(ctx context.Context, id string) error {
	if l.stuck.Load() {
		return errors.New("the logs' disk hangs")
	}
	return l.fifos.Drop(ctx, id)
}

// TestDeletionOnAFullDisk: a VM whose deletion can't be recorded, and not be finished either, isn't started again.
func TestDeletionOnAFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read("7-1")
	run := filepath.Join(w.dir, "run")
	must(t, os.Mkdir(run, 0o755))
	must(t, unix.Mount("tmpfs", run, "tmpfs", 0, "size=4m,mode=755"))
	t.Cleanup(func() { must(t, unix.Unmount(run, unix.MNT_DETACH)) })
	c := w.config()
	logs := &stuckLogs{fifos: fifos{filepath.Join(w.dir, "logs")}}
	logs.stuck.Store(true)
	c.Logs, c.PowerOff = logs, time.Millisecond
	m := w.open(c)
	_, err := m.Run(w.spec())
	must(t, err)
	if err := os.WriteFile(filepath.Join(run, "full"), make([]byte, 8<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	if err := m.Delete("7-1"); err == nil || !strings.Contains(err.Error(), "hangs") {
		t.Errorf("the deletion: %v", err)
	}
	if info, err := m.Inspect("7-1"); err != nil || info.State != node.VMStopping {
		t.Errorf("it is %+v, %v", info, err)
	}
	logs.stuck.Store(false)
	eventually(t, "the deletion goes on by itself", func() error {
		if exists, err := m.Exists("7-1"); err != nil || exists {
			return fmt.Errorf("it exists: %v, %w", exists, err)
		}
		return nil
	})
	nothingLeft(t, w, m)
}
