package main_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// ways are a user's ways to a node: to its address, and through the explorer.
func ways(t *testing.T, w *nodetest.World, n *nodetest.Node, user sign.KeyPair) map[string]nodeapi.Dialer {
	t.Helper()
	client, err := explorer.NewClient(explorer.Config{
		URL: w.URL, Signer: explorer.KeySigner(explorer.RoleUser, user), Transport: &http.Transport{DialContext: w.DialFrom(w.Namespace)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	direct := nodeapi.Dialer{Node: n.ID, User: user, Address: n.Door()}
	if n.Namespace != "" {
		// The address isn't reachable from the test's namespace.
		direct.Address = ""
		direct.Tunnel = func(ctx context.Context) (net.Conn, error) { return w.DialFrom(n.Namespace)(ctx, "tcp", n.Door()) }
	}
	return map[string]nodeapi.Dialer{
		"at its address":       direct,
		"through the explorer": {Node: n.ID, User: user, Tunnel: func(ctx context.Context) (net.Conn, error) { return client.ConnectNode(ctx, n.ID) }},
	}
}

// reached dials until it connects: opening a tunnel takes a moment.
func reached(t *testing.T, w *nodetest.World, d nodeapi.Dialer) *nodeapi.Conn {
	t.Helper()
	var c *nodeapi.Conn
	w.Until(nodetest.Soon, "the node is reached", func() (ok bool) {
		var err error
		c, err = d.Dial(t.Context())
		return err == nil
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A node accepts a deletion signed by the workload's user directly, and no other.
func TestADeletionThatTheExplorerNeverSaw(t *testing.T) {
	w, n := whole(t)
	r := w.Reserve(n, time.Hour)
	w.Result(r, workload.StateOK)
	stranger, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	for way, d := range ways(t, w, n, w.User) {
		if s, err := reached(t, w, d).Status(t.Context(), r.ID); err != nil || s.Phase != "deployed" || s.Type != workload.TypeVolume {
			t.Errorf("%s: status %+v, %v", way, s, err)
		}
	}
	signed := *r
	if err := signed.SignDeletion(workload.Deletion{Created: time.Now()}, w.User.Private()); err != nil {
		t.Fatal(err)
	}
	for way, d := range ways(t, w, n, stranger) {
		if _, err := reached(t, w, d).Delete(t.Context(), r.ID, *signed.Deletion); node.KindOf(err) != node.NotExist {
			t.Errorf("%s, a stranger who has the signed deletion: %v", way, err)
		}
	}
	d := ways(t, w, n, w.User)["at its address"]
	forged := workload.Deletion{Created: time.Now(), Signature: make([]byte, 64)}
	if _, err := reached(t, w, d).Delete(t.Context(), r.ID, forged); node.KindOf(err) != node.Refused {
		t.Errorf("a forged deletion: %v", err)
	}
	if s := n.Status(); s.Workloads[0].Phase != "deployed" {
		t.Errorf("after what was refused: %+v", s.Workloads)
	}
	if _, err := reached(t, w, d).Delete(t.Context(), r.ID, *signed.Deletion); err != nil {
		t.Errorf("the user's own: %v", err)
	}
	w.Result(r, workload.StateDeleted)
	if s, err := reached(t, w, d).Delete(t.Context(), r.ID, *signed.Deletion); err != nil || s.Phase != "ended" {
		t.Errorf("once more, when nothing is left of it: %+v, %v", s, err)
	}
	if _, err := reached(t, w, d).Delete(t.Context(), r.ID, forged); node.KindOf(err) != node.Refused {
		t.Errorf("a forged deletion of what has ended: %v", err)
	}
	n.Stop()
}

func TestUsersSpeakToTheirContainers(t *testing.T) {
	speak(t, newBoxes(t))
}

func TestAsProcessesUsersSpeakToTheirContainers(t *testing.T) {
	b := newSplitBoxes(t)
	speak(t, b)
	b.leave()
	b.gone(b.net)
	b.split.StopAll()
}

// speak exercises a user's requests to their container, both ways, and checks that other users are
// refused.
func speak(t *testing.T, b *boxes) {
	t.Helper()
	w, n := b.World, b.n
	r, _ := b.run(nil)
	stranger, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	for way, d := range ways(t, w, n, stranger) {
		err := reached(t, w, d).Logs(t.Context(), r.ID, nodeapi.LogOptions{Tail: -1}, func(l nodeapi.LogLine) error { return errors.New("heard " + l.Text) })
		if node.KindOf(err) != node.NotExist {
			t.Errorf("%s, a stranger reads the log: %v", way, err)
		}
		if _, err := reached(t, w, d).Exec(t.Context(), r.ID, nodeapi.ExecOptions{Args: []string{"/bin/server"}}, nodeapi.ExecIO{}); node.KindOf(err) != node.NotExist {
			t.Errorf("%s, a stranger runs a command: %v", way, err)
		}
	}
	for way, d := range ways(t, w, n, w.User) {
		var lines []string
		w.Until(nodetest.Soon, way+": the container has spoken", func() bool {
			lines = nil
			err := reached(t, w, d).Logs(t.Context(), r.ID, nodeapi.LogOptions{Tail: -1}, func(l nodeapi.LogLine) error {
				lines = append(lines, l.Stream+" "+l.Text)
				return nil
			})
			if err != nil {
				t.Fatalf("%s: logs: %v", way, err)
			}
			return len(lines) > 0
		})
		if !strings.Contains(lines[0], "stdout listening on") {
			t.Errorf("%s: logs are %q", way, lines)
		}
		var stdout, stderr bytes.Buffer
		code, err := reached(t, w, d).Exec(t.Context(), r.ID, nodeapi.ExecOptions{Args: []string{"/bin/server", "-listen", "nowhere", "-say", "hello"}},
			nodeapi.ExecIO{Stdout: &stdout, Stderr: &stderr})
		if err != nil || code != 1 || stdout.String() != "hello\n" || !strings.Contains(stderr.String(), "missing port") {
			t.Errorf("%s: exec ended with %d, %q, %q, %v", way, code, stdout.String(), stderr.String(), err)
		}
		if use, err := reached(t, w, d).Stats(t.Context(), r.ID); err != nil || use.Memory == 0 || use.PIDs == 0 {
			t.Errorf("%s: use %+v, %v", way, use, err)
		}
		_, err = reached(t, w, d).Exec(t.Context(), r.ID, nodeapi.ExecOptions{Args: []string{"/nothing"}}, nodeapi.ExecIO{Stdout: &stdout, Stderr: &stderr})
		if node.KindOf(err) != node.Invalid {
			t.Errorf("%s: a program that isn't there: %v", way, err)
		}
	}
	b.gone(r)
}
