package container

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

// TakeDown is Busy while a module is open. It works also in a folder that other users can't search.
func TestTakeDownNeedsTheLock(t *testing.T) {
	w := newWorld(t)
	info := w.runs(w.spec("1-1", "serve"))
	own := w.spec("zdb-ssd0-user", "serve")
	own.User, own.NoCapabilities = node.OwnUser, true
	ofTheNode := w.runs(own)
	kind(t, TakeDown(t.Context(), w.cfg), node.Busy, "a container module is running")
	if now := w.is("1-1", "running", func(i node.ContainerInfo) bool { return i.State == node.ContainerRunning }); now.PID != info.PID {
		t.Errorf("it is %+v, was %+v", now, info)
	}
	_, err := Open(t.Context(), w.cfg, w.told)
	kind(t, err, node.Busy)
	w.close()
	must(t, os.Chmod(w.dir, 0o700))
	for range 2 {
		must(t, TakeDown(context.Background(), w.cfg))
	}
	mounted, err := mounts.Read()
	must(t, err)
	for _, m := range mounted.Within(w.cfg.RunDir) {
		t.Errorf("%s is still mounted", m.Path)
	}
	for _, pid := range []uint64{info.PID, ofTheNode.PID} {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			t.Errorf("process %d still runs", pid)
		}
	}
	if left := w.groups(); len(left) > 0 {
		t.Errorf("left: %s", strings.Join(left, ", "))
	}
	must(t, os.Chmod(w.dir, 0o711))
	w.open()
	w.runs(w.spec("1-1", "serve"))
	w.runs(own)
	must(t, w.Delete("1-1"))
	must(t, w.Delete(own.ID))
}
