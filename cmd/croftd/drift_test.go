package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/workload"
)

// back is the limit for any repair.
const back = 30 * time.Second

// said counts the lines of a process's log that contain all of the words.
func said(t *testing.T, p *nodetest.Process, words ...string) int {
	t.Helper()
	raw, err := os.ReadFile(p.Log)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range bytes.Lines(raw) {
		all := true
		for _, word := range words {
			all = all && bytes.Contains(line, []byte(word))
		}
		if all {
			lines++
		}
	}
	return lines
}

// unmounted unmounts the node's pool and waits until its volume is back with its content. The storage
// module logs it.
func unmounted(t *testing.T, w *nodetest.World, n *nodetest.Node, storage *nodetest.Process) {
	t.Helper()
	r := w.Reserve(n, time.Hour)
	w.Result(r, workload.StateOK)
	n.Leave(r, "kept")
	made := n.Subvolumes()[r.ID]
	if err := unix.Unmount(filepath.Join(n.RunDir(), "pools", "ssd0"), 0); err != nil {
		t.Fatal(err)
	}
	w.Until(back, "the pool is mounted again", func() bool { return n.Subvolumes()[r.ID] == made })
	if got := n.Note(r); got != "kept" {
		t.Errorf("the note is %q", got)
	}
	if lines := said(t, storage, `"level":"warn"`, `"step":"drift"`, `"pool":"ssd0"`, "it is mounted again"); lines != 1 {
		t.Errorf("said %d times that it was unmounted", lines)
	}
	if pools := n.Status().Storage.Pools; len(pools) != 1 || pools[0].Remounted != 1 {
		t.Errorf("status has pools %+v", pools)
	}
	// Whether or not the engine noticed: everything is as before, and no user was sent a result.
	settled(w, n, []*workload.Reservation{r})
	w.Result(w.Reserve(n, time.Hour), workload.StateOK)
	w.Result(r, workload.StateOK)
}

func TestAnUnmountedPoolComesBackByItself(t *testing.T) {
	w, n := whole(t)
	unmounted(t, w, n, n.Process)
}

func TestAsProcessesAnUnmountedPoolComesBackByItself(t *testing.T) {
	w, n := split(t)
	unmounted(t, w, n.Node, n.Parts["storage"])
	n.StopAll()
}

// TestRemovedVolumeIsRecreatedAndReported is a volume that is removed outside the node: its
// content is lost, which the node always reports.
func TestRemovedVolumeIsRecreatedAndReported(t *testing.T) {
	w, n := whole(t)
	r := w.Reserve(n, time.Hour)
	w.Result(r, workload.StateOK)
	n.Leave(r, "lost")
	made := n.Subvolumes()[r.ID]
	if out, err := exec.CommandContext(t.Context(), "btrfs", "subvolume", "delete", n.VolumePath(r)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.Until(back, "it is made anew", func() bool {
		now := n.Subvolumes()[r.ID]
		return now != "" && now != made
	})
	settled(w, n, []*workload.Reservation{r})
	for _, words := range [][]string{
		{`"level":"error"`, `"name":"` + r.ID + `"`, "what was in it is lost"},
		{`"level":"warn"`, `"step":"drift"`, `"id":"` + r.ID + `"`, `"type":"volume"`, `"what":"gone"`},
		{`"step":"drift"`, `"id":"` + r.ID + `"`, "restored: the workload"},
	} {
		if lines := said(t, n.Process, words...); lines != 1 {
			t.Errorf("%d lines with %q", lines, words)
		}
	}
	s := n.Status()
	if len(s.Workloads) != 1 || s.Workloads[0].Restored != 1 || s.Workloads[0].Drift == nil || s.Workloads[0].Drift.What != "gone" || s.Drifts["volume"] != 1 {
		t.Errorf("status %+v", s)
	}
}
