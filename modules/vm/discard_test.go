package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/pooltest"
	"github.com/croft-edge/croft/internal/testing/vmguest/report"
	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

const mib = 1 << 20

// pooled puts the data disk of a VM on a real pool. used is what the disk takes of that after a commit, in bytes.
func (w *world) pooled(spec *node.VMSpec, size uint64) (used func() uint64) {
	t := w.t
	t.Helper()
	pools := pooltest.Open(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		must(t, cgroup.End(ctx, w.cgroup))
	})
	d, err := pools.VDisks().Allocate(node.VDiskSpec{Name: "8-1", Size: size})
	must(t, err)
	spec.Disks[0].Path = d.Path
	return func() uint64 {
		t.Helper()
		dir, err := os.Open(filepath.Dir(d.Path))
		must(t, err)
		defer dir.Close()
		must(t, unix.Syncfs(int(dir.Fd())))
		now, err := pools.VDisks().Inspect("8-1")
		must(t, err)
		return now.Used
	}
}

// TestDiscards: what a guest discards comes back to the node's pool, also after another agent has adopted its VM. When the discarder is
// dead, the guest writes on, and its discards do nothing.
func TestDiscards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	output := w.read("7-1")
	spec := w.spec()
	used := w.pooled(&spec, 32*mib)
	agent := w.startAgent(spec)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	boot, err := w.client().Wait(ctx)
	must(t, err)
	checkOffer(t, boot)
	data := bytes.Repeat([]byte("data"), mib)
	// comesBack is how much of 4 MiB comes back when they are written and discarded.
	comesBack := func(at int64) int64 {
		t.Helper()
		must(t, w.client().WriteDisk(ctx, at, data))
		before := used()
		must(t, w.client().Post(ctx, fmt.Sprintf("/discard?offset=%d&size=%d", at, len(data)), nil))
		return int64(before) - int64(used())
	}
	if n := comesBack(4 * mib); n < int64(len(data))-mib/4 {
		t.Errorf("of %d discarded bytes %d come back", len(data), n)
	}

	must(t, agent.Process.Kill())
	_ = agent.Wait()
	m := w.open(w.config())
	info, err := m.Inspect("7-1")
	if err != nil || info.State != node.VMRunning {
		t.Fatalf("after the agent's kill the VM is %+v, %v", info, err)
	}
	if n := comesBack(12 * mib); n < int64(len(data))-mib/4 {
		t.Errorf("in an adopted VM %d of %d discarded bytes come back", n, len(data))
	}

	discarder := otherProcess(t, w, info)
	must(t, unix.Kill(discarder.PID, unix.SIGKILL))
	eventually(t, "the discarder is dead", func() error {
		if discarder.Runs() {
			return errors.New("it runs")
		}
		return nil
	})
	if n := comesBack(20 * mib); n > mib/4 {
		t.Errorf("without a discarder %d bytes come back", n)
	}
	must(t, w.client().WriteDisk(ctx, 21*mib, []byte("kept")))
	if kept, err := w.client().ReadDisk(ctx, 21*mib, 8); err != nil || string(kept) != "keptdata" {
		t.Errorf("without a discarder the disk has %q, %v", kept, err)
	}
	if now, err := m.Inspect("7-1"); err != nil || now.PID != info.PID || now.Restarts != 0 {
		t.Errorf("without a discarder the VM is %+v, %v", now, err)
	}
	must(t, w.client().Post(ctx, "/crash?how=off", nil))
	eventually(t, "a VM that is started again has a discarder", func() error {
		now, err := m.Inspect("7-1")
		if err != nil || now.Restarts != 1 || now.State != node.VMRunning {
			return fmt.Errorf("it is %+v, %w", now, err)
		}
		info = now
		return nil
	})
	discarder = otherProcess(t, w, info)
	p, err := machine.Identify(int(info.PID))
	must(t, err)
	must(t, kill(p))
	eventually(t, "the discarder ends with QEMU", func() error {
		if discarder.Runs() {
			return errors.New("it runs")
		}
		return nil
	})
	must(t, m.Delete("7-1"))
	nothingLeft(t, w, m)
	if text := output.String(); strings.Contains(text, "discard") {
		t.Errorf("the log says:\n%s", text)
	}
}

// checkOffer: the guest is offered discards of the disk that it writes, and no zeroing.
func checkOffer(t *testing.T, boot report.Boot) {
	t.Helper()
	for _, d := range boot.Disks {
		if d.Zero != 0 || (d.Discard > 0) != d.Data {
			t.Errorf("disk %s (data: %t) takes discards of %d bytes and zeroing of %d", d.Serial, d.Data, d.Discard, d.Zero)
		}
	}
}

// otherProcess is the one of the two processes of a VM that isn't QEMU.
func otherProcess(t *testing.T, w *world, info node.VMInfo) machine.Process {
	t.Helper()
	group, err := cgroup.At(w.cgroup + "/vm-7-1")
	must(t, err)
	pids := group.PIDs()
	for _, pid := range pids {
		if uint64(pid) != info.PID && len(pids) == 2 {
			p, err := machine.Identify(pid)
			must(t, err)
			uid, err := p.UID()
			if err != nil || uid != firstUID+discarderUIDs {
				t.Errorf("the discarder's user is %d, %v", uid, err)
			}
			return p
		}
	}
	t.Fatalf("the control group has processes %v, want %d and another", pids, info.PID)
	return machine.Process{}
}

// TestDiscarderThatFails: a VM whose discarder can't be started runs, its guest is offered no discards, and the log says so.
func TestDiscarderThatFails(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{"no program": {"/nowhere"}, "it ends": {"/bin/false"}, "it hangs": {"/bin/sleep", "600"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			output := w.read("7-1")
			spec := w.spec()
			w.pooled(&spec, 16*mib)
			c := w.config()
			c.Discarder, c.PowerOff = command, time.Millisecond
			m := w.open(c)
			_, err := m.Run(spec)
			must(t, err)
			info, err := m.Inspect("7-1")
			must(t, err)
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", info.PID))
			must(t, err)
			if !bytes.Contains(line, []byte("serial=data,discard=off")) || bytes.Contains(line, []byte("discard=on")) || bytes.Contains(line, []byte("discard=unmap")) {
				t.Errorf("QEMU's command line is %q", line)
			}
			eventually(t, "the log says so", func() error {
				if text := output.String(); !strings.Contains(text, "discards aren't passed on") {
					return errors.New(text)
				}
				return nil
			})
			must(t, m.Delete("7-1"))
			nothingLeft(t, w, m)
		})
	}
}
