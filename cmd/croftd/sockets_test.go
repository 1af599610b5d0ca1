package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/workload"
)

// TestNodeWorksWithoutItsSockets: folders where the operator's sockets belong are a warning, and keep nothing from working.
func TestNodeWorksWithoutItsSockets(t *testing.T) {
	t.Parallel()
	w := nodetest.New(t, bins)
	w.StartExplorer()
	n := w.NewNode("n")
	state, debug := filepath.Join(n.RunDir(), "state.sock"), filepath.Join(n.RunDir(), "debug.sock")
	for _, path := range []string{state, debug} {
		if err := os.MkdirAll(filepath.Join(path, "full"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.Start()
	n.WaitReady()
	n.WaitRegistered()
	w.Result(w.Reserve(n, time.Hour), workload.StateOK)
	w.Until(nodetest.Soon, "the node warns of both sockets", func() bool {
		c := socketsCheck(n)
		return c.Level == host.Warning && strings.Contains(c.Detail, "state socket: cannot open the socket "+state) &&
			strings.Contains(c.Detail, "debug socket: cannot open the socket "+debug)
	})

	for _, path := range []string{state, debug} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	// The backoff is a minute at most.
	w.Until(2*time.Minute, "both sockets are served", func() bool {
		_, stateErr := n.TryStatus()
		_, debugErr := exec.CommandContext(w.Context(), w.Croft, "dump", "--debug-socket", debug, "queues").Output()
		return stateErr == nil && debugErr == nil
	})
	w.Until(nodetest.Soon, "the warning is gone", func() bool { return socketsCheck(n).Level == host.Good })
	w.Result(w.Reserve(n, time.Hour), workload.StateOK)
	n.Stop()
	for _, path := range []string{state, debug} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left behind: %v", path, err)
		}
	}
}

// socketsCheck is the check of the operator's sockets.
func socketsCheck(n *nodetest.Node) host.Check {
	r, _ := n.Ready()
	for _, c := range r.Checks {
		if c.Name == "sockets" {
			return c
		}
	}
	return host.Check{}
}
