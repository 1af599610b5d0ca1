package container

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

// ready waits until the start that Create prepares is prepared, and returns the
// process of the prepared task; 0 for none.
func (w *world) ready(id string) uint32 {
	w.Helper()
	held, err := w.module.table.Hold(w.Context(), id)
	must(w, err)
	defer w.module.table.Release(held)
	return held.Prepared.PID
}

// runs is the command line of a process.
func runs(t *testing.T, pid uint64) string {
	t.Helper()
	raw, err := os.ReadFile("/proc/" + strconv.FormatUint(pid, 10) + "/cmdline")
	must(t, err)
	return strings.ReplaceAll(string(raw), "\x00", " ")
}

// Start runs the process that Create has prepared; until then the container's program
// doesn't run.
func TestCreatePreparesTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1", "serve")
	_, err := w.Create(s)
	must(t, err)
	waits := w.ready("1-1")
	if waits == 0 {
		t.Fatal("nothing is ready")
	}
	if says := runs(t, uint64(waits)); !strings.Contains(says, "runc") {
		t.Errorf("before the start %q runs", says)
	}
	again, err := w.Create(s)
	must(t, err)
	if again.State != node.ContainerCreated || again.PID != 0 || again.Drift != "" || w.ready("1-1") != waits {
		t.Errorf("created again: %+v, process %d became %d", again, waits, w.ready("1-1"))
	}
	info, err := w.Start("1-1")
	must(t, err)
	if info.PID != uint64(waits) || info.State != node.ContainerRunning || info.Restarts != 0 || w.ready("1-1") != 0 {
		t.Errorf("process %d was ready, started: %+v", waits, info)
	}
	must(t, w.Delete("1-1"))
	w.nothingLeft("1-1")
}

// Start makes a new task when the prepared one was killed.
func TestPreparedTaskIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Create(w.spec("1-1", "serve"))
	must(t, err)
	waits := w.ready("1-1")
	must(t, syscall.Kill(int(waits), syscall.SIGKILL))
	info, err := w.Start("1-1")
	must(t, err)
	if info.State != node.ContainerRunning || info.PID == uint64(waits) {
		t.Errorf("started: %+v", info)
	}
}

// The leftovers of a container that containerd has lost don't hinder the next start of that ID.
func TestLeftoversOfALostContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Create(w.spec("1-1", "serve"))
	must(t, err)
	waits, bundle := w.ready("1-1"), w.module.daemon.Bundle("ada", "1-1")
	if _, err := os.Stat(bundle); err != nil || waits == 0 {
		t.Fatalf("process %d is ready, %v", waits, err)
	}
	ctx, c := w.behind("ada")
	lost, err := c.ContainerService().Get(ctx, "1-1")
	must(t, err)
	must(t, c.ContainerService().Delete(ctx, "1-1"))
	_, err = c.ContainerService().Create(ctx, lost)
	must(t, err)
	must(t, w.module.service.remover.leftovers.ClearNew(ctx, "ada", "1-1"))
	if _, err := os.Stat(bundle); !os.IsNotExist(err) {
		t.Errorf("its folder is left: %v", err)
	}
	// It may still be a zombie: its reaper isn't the module.
	eventually(t, "the process has ended", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(int(waits)) + "/stat")
		after := string(stat[bytes.LastIndexByte(stat, ')')+1:])
		return err != nil || strings.HasPrefix(after, " Z") || strings.HasPrefix(after, " X")
	})
	must(t, w.Delete("1-1"))
	w.nothingLeft("1-1")
}

// The next agent starts and deletes containers whose start an earlier agent has prepared.
func TestPreparedTaskOfAnEarlierAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"1-1", "1-2", "1-3"} {
		_, err := w.Create(w.spec(id, "serve"))
		must(t, err)
		w.ready(id)
	}
	w.close()
	w.open()
	info, err := w.Start("1-1")
	must(t, err)
	if info.State != node.ContainerRunning {
		t.Errorf("started: %+v", info)
	}
	again, err := w.Create(w.spec("1-2", "serve"))
	must(t, err)
	if waits := w.ready("1-2"); again.State != node.ContainerCreated || waits == 0 {
		t.Errorf("created again: %+v, process %d", again, waits)
	}
	for _, id := range []string{"1-1", "1-2", "1-3"} {
		must(t, w.Delete(id))
	}
	w.nothingLeft("1-1", "1-2", "1-3")
}

// A container is deleted or replaced while its start is being prepared.
func TestDeleteWhilePreparing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const many = 8
	var work sync.WaitGroup
	for i := range many {
		work.Go(func() {
			id := fmt.Sprintf("%d-1", i)
			if _, err := w.Create(w.spec(id, "serve")); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				other := w.spec(id, "serve")
				other.Memory *= 2
				if _, err := w.Create(other); err != nil {
					t.Error(err)
				}
				if info, err := w.Start(id); err != nil || info.State != node.ContainerRunning {
					t.Errorf("%+v (%v)", info, err)
				}
			}
			if err := w.Delete(id); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	for i := range many {
		w.nothingLeft(fmt.Sprintf("%d-1", i))
	}
}
