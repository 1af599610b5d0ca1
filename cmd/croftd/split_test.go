package main_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/workload"
)

// split makes a world with an explorer and one node as separate processes over redis.
func split(t *testing.T, args ...string) (*nodetest.World, *nodetest.Split) {
	t.Helper()
	t.Parallel()
	w := nodetest.New(t, bins)
	w.StartExplorer()
	return w, w.StartSplit("n", args...)
}

func TestAsProcessesAVolumeFromReservationToDeletion(t *testing.T) {
	w, n := split(t)
	r := w.Reserve(n.Node, time.Hour)
	w.Result(r, workload.StateOK)
	if _, err := fill(filepath.Join(n.VolumePath(r), "big"), 1100<<20); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("past its size: %v", err)
	}
	if got := w.CountersAt(n.RedisURL()).Volume; got != 1 {
		t.Errorf("%d volumes counted over redis", got)
	}
	if s := n.Status(); s.OneProcess || s.Bus == "" || s.Counters.Volume != 1 {
		t.Errorf("status %+v", s)
	}
	w.Delete(r)
	w.Result(r, workload.StateDeleted)
	if left := n.Subvolumes(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	n.StopAll()
}

func TestAsProcessesAnythingMayBeKilled(t *testing.T) {
	w, n := split(t, "--step-timeout", "10s", "--pool-size", "14GiB")
	var all []*workload.Reservation
	reserve := func() {
		r := w.Reserve(n.Node, time.Hour)
		w.Result(r, workload.StateOK)
		all = append(all, r)
	}
	reserve()
	before := n.Subvolumes()

	for _, part := range []string{"storage", "identity", "monitor", "debug", "network", "container", "zdb", "vm", "provision"} {
		n.Parts[part].Kill()
		late := w.Reserve(n.Node, time.Hour)
		if part == "storage" {
			w.Until(nodetest.Soon, "the node says that storage is away", func() bool {
				ready, ok := n.Ready()
				return !ok && strings.Contains(checksText(ready), "storage")
			})
		}
		n.StartPart(part)
		w.Result(late, workload.StateOK)
		n.WaitReady() // without redis a process that starts ends with an error
		all = append(all, late)
	}

	n.Redis.Kill()
	late := w.Reserve(n.Node, time.Hour)
	n.StartRedis()
	w.Result(late, workload.StateOK)
	all = append(all, late)

	n.WaitReady()
	settled(w, n.Node, all)
	if now := n.Subvolumes(); now[all[0].ID] != before[all[0].ID] {
		t.Errorf("the first volume was made again: %v, %v", before, now)
	}
	n.StopAll()
}

func TestAsProcessesInAnyOrder(t *testing.T) {
	w, n := split(t)
	r := w.Reserve(n.Node, time.Hour)
	w.Result(r, workload.StateOK)
	n.StopAll()
	n.StartPart("provision")
	w.Until(nodetest.Soon, "it says what it waits for", func() bool {
		ready, ok := n.Ready()
		return !ok && strings.Contains(checksText(ready), "identityd")
	})
	for _, part := range []string{"monitor", "identity", "storage", "debug", "network", "container", "zdb", "vm"} {
		n.StartPart(part)
	}
	n.WaitReady()
	settled(w, n.Node, []*workload.Reservation{r})
}

func TestTheSameNodeInBothShapes(t *testing.T) {
	w, n := split(t)
	r := w.Reserve(n.Node, time.Hour)
	w.Result(r, workload.StateOK)
	n.Leave(r, "moved")
	made := n.Subvolumes()
	n.StopAll()
	alone := w.NewNode("n")
	if alone.ID != n.ID {
		t.Fatalf("the node is %s now, was %s", alone.ID, n.ID)
	}
	alone.Start()
	alone.WaitReady()
	settled(w, alone, []*workload.Reservation{r})
	if now := alone.Subvolumes(); now[r.ID] != made[r.ID] || alone.Note(r) != "moved" {
		t.Errorf("the volume changed with the shape: %v, %v", made, now)
	}
	alone.Stop()
}

func TestWithoutRedis(t *testing.T) {
	w := nodetest.New(t, bins)
	n := w.NewNode("n", "--bus", "redis://:secret@127.0.0.1:1")
	out := w.Start("n-storage", w.Croftd, append([]string{"storage"}, n.Flags()...)...)
	err := out.Wait(unix.Signal(0), 30*time.Second)
	if exitStatus(err) != 1 || !strings.Contains(out.Output(), "croftd: cannot") {
		t.Errorf("%v: %s", err, out.Output())
	}
	if strings.Contains(out.Output(), "secret") {
		t.Errorf("the password is shown: %s", out.Output())
	}
}

func TestAsProcessesAnythingMayHang(t *testing.T) {
	w, n := split(t, "--step-timeout", "3s")
	r := w.Reserve(n.Node, time.Hour)
	w.Result(r, workload.StateOK)
	all := []*workload.Reservation{r}
	for name, process := range map[string]*nodetest.Process{"storage": n.Parts["storage"], "redis": n.Redis} {
		process.Signal(unix.SIGSTOP)
		late := w.Reserve(n.Node, time.Hour)
		w.Until(nodetest.Soon, "the node says that something hangs", func() bool {
			ready, ok := n.Ready()
			return !ok && strings.Contains(checksText(ready), "modules that don't answer")
		})
		process.Signal(unix.SIGCONT)
		w.Result(late, workload.StateOK)
		all = append(all, late)
		if there := n.Subvolumes(); len(there) != len(all) {
			t.Errorf("after %s hung: %v", name, there)
		}
	}
	n.WaitReady()
	settled(w, n.Node, all)
	n.StopAll()
}
