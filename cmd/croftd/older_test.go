package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// volumeLabel is the extended attribute that names a volume's owner.
const volumeLabel = "trusted.croft.filesystem"

// labelOf is the content of a volume's label.
func labelOf(t *testing.T, n *nodetest.Node, r *workload.Reservation) map[string]any {
	t.Helper()
	buffer := make([]byte, 512)
	size, err := unix.Lgetxattr(n.VolumePath(r), volumeLabel, buffer)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(buffer[:size], &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// older changes a stopped node's volume to the state of an older croft: its label has no hash, as its
// record notes.
func older(t *testing.T, n *nodetest.Node, r *workload.Reservation) {
	t.Helper()
	label := labelOf(t, n, r)
	delete(label, "hash")
	text, err := json.Marshal(label)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Lsetxattr(n.VolumePath(r), volumeLabel, text, 0); err != nil {
		t.Fatal(err)
	}
	records, err := store.Open(store.Config{Root: filepath.Join(n.StateDir(), "store")})
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	rec, err := records.Record(r.ID)
	if err != nil {
		t.Fatal(err)
	}
	rec.Unlabelled = true
	if _, err := records.Write(rec); err != nil {
		t.Fatal(err)
	}
}

// TestAVolumeOfAnOlderCroft gets its label at the start, and stays its user's also when the node loses
// its store afterwards.
func TestAVolumeOfAnOlderCroft(t *testing.T) {
	w, n := whole(t)
	r := w.Reserve(n, time.Hour)
	told := w.Result(r, workload.StateOK)
	n.Leave(r, "of the older one")
	n.Stop()
	older(t, n, r)
	made := n.Subvolumes()[r.ID]
	n.Start()
	n.WaitReady()
	w.Until(nodetest.Soon, "it has its label", func() bool { return labelOf(t, n, r)["hash"] == w.HashOf(r) })
	w.Until(nodetest.Soon, "it is deployed", func() bool { return n.Status().Counters.Volume == 1 })
	if s := n.Status().Workloads[0]; s.Restored != 0 || s.Drift != nil || n.Subvolumes()[r.ID] != made {
		t.Errorf("it was taken for another: %+v", s)
	}
	if again := w.Result(r, workload.StateOK); again.Sequence != told.Sequence {
		t.Errorf("its user was told anew: %+v", again)
	}
	n.Stop()
	if err := os.RemoveAll(n.StateDir() + "/store"); err != nil {
		t.Fatal(err)
	}
	n.Start()
	n.WaitReady()
	n.Croftd("store", "accept-older")
	w.Until(nodetest.Soon, "it is adopted", func() bool { return n.Status().Counters.Volume == 1 })
	if got := n.Note(r); got != "of the older one" || n.Subvolumes()[r.ID] != made {
		t.Errorf("the note is %q", got)
	}
	w.Delete(r)
	w.Result(r, workload.StateDeleted)
	if left := n.Subvolumes(); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
}
