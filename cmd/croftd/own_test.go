package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// zdbProgram builds the zdb for a node's --zdb-binary.
func zdbProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "zdb")
	c := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "github.com/croft-edge/croft/cmd/zdb")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("cannot build zdb: %v: %s", err, out)
	}
	return path
}

// TestOwnContainersAreNoWorkloads: a container of the node's own, with its image, layer and
// volume, is listed separately, is no orphan, is ended with users' containers, and leaves nothing.
func TestOwnContainersAreNoWorkloads(t *testing.T) {
	w, n := whole(t, "--zdb-binary", zdbProgram(t))
	n.WaitReady()
	before := n.Left()
	r := w.Push(w.ZDB(n, nil))
	at := w.ZDBResult(r)
	own := ownOf(w, n, at.Container)
	apart := func(when string) {
		t.Helper()
		s := n.Status()
		if len(s.Containers) != 0 || len(s.Images) != 0 || len(s.Orphans) != 0 || len(s.OwnContainers) != 1 {
			t.Errorf("%s: containers %+v, images %+v, orphans %+v, own %+v", when, s.Containers, s.Images, s.Orphans, s.OwnContainers)
		}
		if c := w.Counters(n); c.ZDB != 1 || c.Container+c.Volume != 0 {
			t.Errorf("%s: the counters are %+v", when, c)
		}
	}
	apart("at first")
	table := n.Croftd("status")
	for _, want := range []string{"OWN CONTAINER", at.Container} {
		if !strings.Contains(table, want) {
			t.Errorf("croftd status has no %q:\n%s", want, table)
		}
	}
	n.Kill()
	n.Start()
	n.WaitReady()
	w.Until(nodetest.Soon, "the node has looked at what it has", func() bool { return n.Status().Adopted })
	apart("after kill -9")
	if again := ownOf(w, n, at.Container); again.PID != own.PID {
		t.Errorf("process %d became %d", own.PID, again.PID)
	}

	n.Stop()
	for range 2 {
		if out, err := n.TryCroftd("storage", "detach"); exitStatus(err) != 5 {
			t.Errorf("detaching what a container has mounted: %v\n%s", err, out)
		}
	}
	n.Croftd("container", "down")
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", own.PID)); err == nil {
		t.Errorf("process %d outlives `croftd container down`", own.PID)
	}
	if mounts, err := nodetest.Mounts(filepath.Join(n.RunDir(), "container")); err != nil || len(mounts) != 0 {
		t.Errorf("mounted are %v (%v)", mounts, err)
	}
	n.Croftd("storage", "detach")
	n.Start()
	n.WaitReady()
	w.Until(nodetest.Soon, "zdb is made again", func() bool {
		c, ok := n.OwnContainer(at.Container)
		return ok && c.State == node.ContainerRunning && c.PID != own.PID
	})
	w.Until(nodetest.Soon, "the namespace counts as deployed again", func() bool { return w.Counters(n).ZDB == 1 })
	apart("after it was taken down")
	if again := w.ZDBResult(r); again != at {
		t.Errorf("the answer was %+v and is %+v", at, again)
	}

	w.Delete(r)
	w.Result(r, workload.StateDeleted)
	w.Until(nodetest.Soon, "nothing is left", func() bool { return len(n.LeftSince(before)) == 0 })
	if s := n.Status(); len(s.OwnContainers) != 0 || !slices.Equal(n.Left(), before) {
		t.Errorf("own containers %+v, left %q, before %q", s.OwnContainers, n.Left(), before)
	}
}

// ownOf is a running container of the node's own.
func ownOf(w *nodetest.World, n *nodetest.Node, id string) (info node.ContainerInfo) {
	w.Helper()
	w.Until(nodetest.Soon, id+" runs", func() bool {
		var ok bool
		info, ok = n.OwnContainer(id)
		return ok && info.State == node.ContainerRunning
	})
	return info
}
