package main_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/nodetest"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/talk"
	"github.com/croft-edge/croft/pkg/workload"
)

// ways are a user's to a node: to its address, and through the explorer.
func ways(t *testing.T, w *nodetest.World, n *nodetest.Node, user sign.KeyPair) map[string]talk.Dialer {
	t.Helper()
	client, err := explorer.NewClient(explorer.Config{URL: w.URL, Signer: explorer.KeySigner(explorer.RoleUser, user)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return map[string]talk.Dialer{
		"at its address":       {Node: n.ID, User: user, Address: n.Door()},
		"through the explorer": {Node: n.ID, User: user, Tunnel: func(ctx context.Context) (net.Conn, error) { return client.ConnectNode(ctx, n.ID) }},
	}
}

// reached dials until the node is there: a tunnel takes its moment.
func reached(t *testing.T, w *nodetest.World, d talk.Dialer) *talk.Conn {
	t.Helper()
	var c *talk.Conn
	w.Until(60*time.Second, "the node is reached", func() (ok bool) {
		var err error
		c, err = d.Dial(t.Context())
		return err == nil
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A node takes its user's signed deletion from them, and nobody else's.
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
	n.Stop()
}

// What stands for the container's reservation is a volume's: the door asks
// whose the ID is, and the container module what is of that ID.
func TestUsersSpeakToTheirContainers(t *testing.T) {
	w, n := whole(t)
	r := w.Reserve(n, time.Hour)
	w.Result(r, workload.StateOK)
	runContainer(t, w, n, r.ID)
	for way, d := range ways(t, w, n, w.User) {
		var lines []string
		w.Until(60*time.Second, way+": the container has spoken", func() bool {
			lines = nil
			err := reached(t, w, d).Logs(t.Context(), r.ID, talk.LogOptions{Tail: -1}, func(l talk.LogLine) error {
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
		code, err := reached(t, w, d).Exec(t.Context(), r.ID, talk.ExecOptions{Args: []string{"/bin/server", "-listen", "nowhere", "-say", "hello"}},
			talk.ExecIO{Stdout: &stdout, Stderr: &stderr})
		if err != nil || code != 1 || stdout.String() != "hello\n" || !strings.Contains(stderr.String(), "missing port") {
			t.Errorf("%s: exec ended with %d, %q, %q, %v", way, code, stdout.String(), stderr.String(), err)
		}
		if use, err := reached(t, w, d).Stats(t.Context(), r.ID); err != nil || use.Memory == 0 || use.PIDs == 0 {
			t.Errorf("%s: use %+v, %v", way, use, err)
		}
		_, err = reached(t, w, d).Exec(t.Context(), r.ID, talk.ExecOptions{Args: []string{"/nothing"}}, talk.ExecIO{Stdout: &stdout, Stderr: &stderr})
		if node.KindOf(err) != node.Invalid {
			t.Errorf("%s: a program that isn't there: %v", way, err)
		}
	}
	n.Stop()
}

// runContainer runs the test images' server as a container of that ID.
func runContainer(t *testing.T, w *nodetest.World, n *nodetest.Node, id string) {
	t.Helper()
	client, err := bus.Dial(t.Context(), n.BusURL(), bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	images, containers := stubs.NewImagesStub(client), stubs.NewContainersStub(client)
	w.Until(90*time.Second, "the image is there", func() bool {
		i, err := images.Pull(t.Context(), node.ImageSpec{Label: id, Reference: w.Server(), User: w.User.ID()})
		if err != nil && node.KindOf(err) != node.Transient {
			t.Fatal(err)
		}
		return err == nil && i.Ready
	})
	layer := w.Path("layer")
	if err := os.Mkdir(layer, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = containers.Create(t.Context(), node.ContainerSpec{
		ID: id, User: w.User.ID(), Layer: layer, Hostname: "web", CPU: 1, Memory: 128 << 20,
		Env: node.Env{}, Entrypoint: []string{}, DNS: []string{}, Mounts: []node.MountSpec{}, Terminal: []string{},
	})
	if err == nil {
		_, err = containers.Start(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
}
