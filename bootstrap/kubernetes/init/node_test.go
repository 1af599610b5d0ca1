package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/kubeapi"
)

// node is one that came at a minute, and is ready or not.
func node(name string, minute int, ready bool) nodeObject {
	var n nodeObject
	n.Metadata.Name = name
	n.Metadata.Created = time.Date(2026, 11, 27, 1, minute, 0, 0, time.UTC).Format(time.RFC3339)
	status := "Unknown"
	if ready {
		status = "True"
	}
	n.Status.Conditions = []nodeCondition{{Type: "DiskPressure", Status: "False"}, {Type: "Ready", Status: status}}
	return n
}

// TestClaims: whatever the names are, a machine that is there comes before one that has gone, as after a worker was replaced with
// one of the same address, and one that came earlier before one that came later and claims the same.
func TestClaims(t *testing.T) {
	gone, next, liar := node("7-2", 1, false), node("8-1", 20, true), node("0", 30, true)
	want := []string{"8-1", "0", "7-2"}
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.Permutation([]nodeObject{gone, next, liar}).Draw(t, "order")
		slices.SortFunc(nodes, byClaim)
		for i, n := range nodes {
			if n.Metadata.Name != want[i] {
				t.Fatalf("machine %d is %s, want %v", i, n.Metadata.Name, want)
			}
		}
	})
}

func TestReadiness(t *testing.T) {
	if !node("a", 1, true).ready() || node("a", 1, false).ready() || (nodeObject{}).ready() {
		t.Error("readiness isn't the node's condition")
	}
	started := time.Date(2026, 11, 27, 1, 0, 0, 0, time.UTC)
	for reported, want := range map[string]bool{
		"2026-11-27T01:00:00Z": true, "2026-11-27T01:00:01Z": true, "2026-11-27T00:59:59Z": false, "": false, "10000-01-01T11:59:59Z": false, "soon": false,
	} {
		if got := (nodeCondition{Reported: reported}).reportedSince(started); got != want {
			t.Errorf("reported %q since the start: %t, want %t", reported, got, want)
		}
	}
}

func TestUnready(t *testing.T) {
	answer := &kubeapi.Error{Code: 500, Message: "[+]ping ok [-]poststarthook/rbac/bootstrap-roles failed: reason withheld [-]etcd failed: reason withheld readyz check failed"}
	if got := unready(answer); got == nil || got.Error() != "it waits for poststarthook/rbac/bootstrap-roles, etcd" {
		t.Errorf("the answer becomes %v", got)
	}
	for _, err := range []error{nil, errors.New("connection refused"), &kubeapi.Error{Code: 503, Message: "busy"}} {
		if got := unready(err); !errors.Is(got, err) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
}

// TestReplaceFile: a file with the same content isn't written anew, so that a full disk doesn't stop a boot.
func TestReplaceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write := func(text string) os.FileInfo {
		if err := replaceFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := write("a")
	if !os.SameFile(first, write("a")) {
		t.Error("the same content is written anew")
	}
	if os.SameFile(first, write("b")) {
		t.Error("another content isn't written")
	}
}

// TestUpgrade: a control plane goes on with the same or the next minor version, and with nothing else.
func TestUpgrade(t *testing.T) {
	for step, want := range map[[2]string]bool{
		{"v1.36.3", "v1.36.3"}: true, {"v1.36.3", "v1.36.1"}: true, {"v1.36.3", "v1.37.0"}: true, {"", "v1.36.3"}: true,
		{"v1.36.3", "v1.35.9"}: false, {"v1.36.3", "v1.38.0"}: false, {"v1.36.3", "v2.36.3"}: false, {"v1.36.3", ""}: false,
	} {
		if err := upgrade(step[0], step[1]); (err == nil) != want {
			t.Errorf("from %q to %q: %v", step[0], step[1], err)
		}
	}
}

// TestStarted: when the kubelet was started is told by the clock as it is now.
func TestStarted(t *testing.T) {
	m := membership{since: time.Now().Add(-time.Hour)}
	if passed := time.Since(m.started()); passed < time.Hour-time.Minute || passed > time.Hour+time.Minute {
		t.Errorf("it was started %s ago", passed)
	}
}
