package main_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/workload"
)

// dumpedQueues are the members of the section queues of a dump that every node has.
type dumpedQueues struct {
	Modules struct {
		Name                      string
		Waiting, Running, Failing *int
		Runs, Failures, Dropped   *uint64
	}
	Hooks       []json.RawMessage
	Engine      map[string]int
	Undelivered *int
	Mirrors     []struct {
		Instance string
		Up       bool
		Lag      int
		Error    string
	}
}

// queues are the queues in a node's dump.
func queues(w *nodetest.World, n *nodetest.Node) (out struct{ Queues dumpedQueues }) {
	w.Helper()
	raw, err := exec.CommandContext(w.Context(), w.Croft, "dump", "--debug-socket", filepath.Join(n.RunDir(), "debug.sock"), "-o", "json", "queues").Output()
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		w.Fatalf("%v: %s", err, raw)
	}
	return out
}

// TestADumpShowsWhatWaits: the queues of a node whose explorer has gone, and whose mirror can't be written, with lengths and failures.
func TestADumpShowsWhatWaits(t *testing.T) {
	w, n := whole(t, "--mirrors", "fs:///dev/null/mirror")
	r := w.Reserve(n, time.Hour)
	w.Result(r, workload.StateOK)
	q := queues(w, n).Queues
	if q.Modules.Name == "" || q.Modules.Waiting == nil || q.Modules.Running == nil || *q.Modules.Running == 0 || q.Modules.Runs == nil || q.Modules.Failures == nil {
		t.Errorf("the queue of modules, which run, is %+v", q.Modules)
	}
	for _, name := range []string{"waiting", "running", "abandoned", "retrying", "failures"} {
		if have, ok := q.Engine[name]; !ok || have != 0 {
			t.Errorf("the engine's %s is %d, %t", name, have, ok)
		}
	}
	if len(q.Mirrors) != 1 || q.Mirrors[0].Up || q.Mirrors[0].Error == "" {
		t.Errorf("the mirrors are %+v", q.Mirrors)
	}
	if q.Hooks == nil {
		t.Error("there are no queues of hooks")
	}
	w.StopExplorer()
	w.Until(nodetest.Soon, "the end of an evicted volume waits for the explorer", func() bool {
		_, _ = n.TryCroftd("evict", r.ID, "--yes")
		q := queues(w, n).Queues
		return q.Undelivered != nil && *q.Undelivered == 1
	})
}
