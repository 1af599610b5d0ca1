package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// startExplorer starts the explorer on a free port, with a database in the
// demo's folder, and the liar in front of it.
func startExplorer(ctx context.Context, w *world) error {
	if err := w.runExplorer(ctx); err != nil {
		return err
	}
	liar, err := newLiar(w.explorerAddress)
	if err != nil {
		return err
	}
	w.liar = liar
	say("explorer at http://%s, process %d", w.explorerAddress, w.explorer.pid())
	return nil
}

// runExplorer starts the explorer and waits until it answers.
func (w *world) runExplorer(ctx context.Context) error {
	portFile := w.path("explorer.address")
	_ = os.Remove(portFile)
	p, err := w.start("explorer", "explorer", "--listen", "127.0.0.1:0", "--port-file", portFile, "--db", w.path("explorer.db"))
	if err != nil {
		return err
	}
	w.explorer = p
	err = until(ctx, 10*time.Second, "the explorer answers", func() (bool, error) {
		if !p.running() {
			return false, fmt.Errorf("the explorer has ended; its log is %s", p.log)
		}
		address, err := os.ReadFile(portFile)
		if err != nil {
			return false, err
		}
		w.explorerAddress = strings.TrimPrefix(strings.TrimSpace(string(address)), "http://")
		return answers(ctx, "http://"+w.explorerAddress+"/healthz")
	})
	if w.liar != nil {
		w.liar.pointAt(w.explorerAddress)
	}
	return err
}

// answers reports whether url answers with 200.
func answers(ctx context.Context, url string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK, nil
}

// startNode starts the node and waits until the explorer knows it.
func startNode(ctx context.Context, w *world) error {
	if err := w.runNode(ctx); err != nil {
		return err
	}
	err := until(ctx, 20*time.Second, "the node registers itself", func() (bool, error) {
		var nodes []struct {
			NodeID string `json:"node_id"`
		}
		if err := w.croftJSON(ctx, &nodes, "node", "list"); err != nil {
			return false, err
		}
		if len(nodes) == 0 {
			return false, nil
		}
		w.nodeID = nodes[0].NodeID
		return true, nil
	})
	if err != nil {
		return err
	}
	say("node %s, process %d", w.nodeID, w.node.pid())
	out, err := w.croft(ctx, "node", "list")
	show(out)
	return err
}

func (w *world) nodeArgs() []string {
	return []string{
		"--state-dir", w.path("state"), "--run-dir", w.path("run"),
		"--bus-listen", "unix://" + w.path("run", "bus.sock"),
	}
}

// runNode starts the node and waits until it is ready.
func (w *world) runNode(ctx context.Context) error {
	healthFile := w.path("health.address")
	_ = os.Remove(healthFile)
	args := append([]string{"run"}, w.nodeArgs()...)
	args = append(args, "--explorer", w.liar.url(), "--pool-size", "16GiB",
		"--health-listen", "127.0.0.1:0", "--health-file", healthFile,
		"--door-listen", "127.0.0.1:0", "--image-paths", w.path("images"), "--door-listen", "127.0.0.1:0", "--heartbeat", "2s", "--log-level", "info")
	p, err := w.start("croftd", "croftd", append(args, containerFlags(w)...)...)
	if err != nil {
		return err
	}
	w.node = p
	return until(ctx, 20*time.Second, "the node is ready", func() (bool, error) {
		if !p.running() {
			return false, fmt.Errorf("the node has ended; its log is %s", p.log)
		}
		address, err := os.ReadFile(healthFile)
		if err != nil {
			return false, err
		}
		return answers(ctx, "http://"+strings.TrimSpace(string(address))+"/readyz")
	})
}

// makeKeys makes a user, and somebody else.
func makeKeys(ctx context.Context, w *world) error {
	for _, key := range []struct {
		file string
		id   *string
	}{{"user.seed", &w.user}, {"stranger.seed", &w.stranger}} {
		if _, err := w.croftAs(ctx, key.file, "id", "create"); err != nil {
			return err
		}
		out, err := w.croftAs(ctx, key.file, "-o", "json", "id", "show")
		if err != nil {
			return err
		}
		var shown struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(out, &shown); err != nil || shown.ID == "" {
			return fmt.Errorf("croft id show printed no ID: %q", out)
		}
		*key.id = shown.ID
		info, err := os.Stat(w.path(key.file))
		if err != nil {
			return err
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			return fmt.Errorf("the key file has mode %o, must be 600", mode)
		}
	}
	say("user %s, key file 0600", w.user)
	return nil
}
