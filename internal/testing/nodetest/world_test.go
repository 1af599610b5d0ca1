package nodetest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// TestWorldWithoutRunningNodes makes a world with an explorer and a node that isn't started.
func TestWorldWithoutRunningNodes(t *testing.T) {
	binaries, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := New(t, binaries)
	w.StartExplorer()
	n := w.NewNode("one")
	if n.ID == "" || n.Dir() != w.Path("one") || n.StateDir() != w.Path("one", "s") || n.RunDir() != w.Path("one", "r") {
		t.Errorf("the node is %q in %s", n.ID, n.Dir())
	}
	if flags := n.Flags(); !slices.Contains(flags, w.URL) || !slices.Contains(flags, filepath.Join(w.Dir, "images")) {
		t.Errorf("its flags are %v", flags)
	}
	if left := n.Left(); len(left) != 0 {
		t.Errorf("it has left %v", left)
	}
	if n.Containerd() != 0 || n.LogCarrier() != 0 || len(n.Subvolumes()) != 0 {
		t.Error("a node that isn't started has processes or volumes")
	}
	if _, err := n.TryStatus(); err == nil {
		t.Error("a node that isn't started has a status")
	}
	if _, err := n.TryCroftd("status"); err == nil || !strings.Contains(stderr(err), "no node is running here") {
		t.Errorf("croftd status gives %v", err)
	}
	c := w.Container(n, func(c *workload.Container) { c.Mounts = append(c.Mounts, Mount(w.Volume(n.ID, 1, time.Hour), "/data")) })
	if hash := w.HashOf(c); hash == "" || c.User != w.User.ID() || c.NodeID != n.ID {
		t.Errorf("the container is %+v", c)
	}
	url := w.URL
	w.KillExplorer()
	w.StartExplorer()
	if info, err := w.Client.Info(t.Context()); err != nil || w.URL != url {
		t.Errorf("the second explorer at %s says %+v, %v; the first was at %s", w.URL, info, err, url)
	}
}
