package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
)

// edge is the demo's node.
type edge struct {
	stage   *stage
	process *process
	id      string
	// more are flags of this demo alone.
	more []string
}

func (n *edge) args() []string {
	return []string{
		"--state-dir", n.stage.path("state"), "--run-dir", n.stage.path("run"),
		"--bus-listen", n.stage.bus(),
	}
}

// run starts the node and waits until it is ready.
func (n *edge) run(ctx context.Context, explorer string) error {
	healthFile := n.stage.path("health.address")
	_ = os.Remove(healthFile)
	flags := append([]string{"run"}, n.args()...)
	flags = append(flags, "--explorer", explorer, "--pool-size", n.stage.poolSize(), "--cpu-overcommit", "4", "--kubernetes-image", n.stage.imageFolder(),
		"--health-listen", "127.0.0.1:0", "--health-file", healthFile,
		"--door-listen", "127.0.0.1:0", "--image-paths", n.stage.path("images"), "--door-listen", "127.0.0.1:0", "--heartbeat", "2s", "--log-level", "info")
	p, err := n.stage.start("croftd", "croftd", slices.Concat(flags, n.stage.containerFlags(), n.more)...)
	if err != nil {
		return err
	}
	n.process = p
	return until(ctx, 20*time.Second, "the node is ready", func() (bool, error) {
		if !p.running() {
			return false, fmt.Errorf("the node has ended; its log is %s", p.log)
		}
		return n.ready(ctx)
	})
}

// ready reports whether the node takes new reservations.
func (n *edge) ready(ctx context.Context) (bool, error) {
	address, err := os.ReadFile(n.stage.path("health.address"))
	if err != nil {
		return false, err
	}
	return answers(ctx, "http://"+strings.TrimSpace(string(address))+"/readyz")
}

// container asks the node's container module for a container.
func (n *edge) container(ctx context.Context, id string) (info node.ContainerInfo, err error) {
	client, err := bus.Dial(ctx, n.stage.bus(), bus.Options{})
	if err != nil {
		return info, err
	}
	defer client.Close()
	return stubs.NewContainersStub(client).Inspect(ctx, id)
}

// networks calls the node's network module over its bus.
func (n *edge) networks(ctx context.Context, call func(stub *stubs.NetworksStub) error) error {
	client, err := bus.Dial(ctx, n.stage.bus(), bus.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	return call(stubs.NewNetworksStub(client))
}

func (n *edge) network(ctx context.Context, id string) (info node.NetworkInfo, err error) {
	err = n.networks(ctx, func(stub *stubs.NetworksStub) error {
		list, err := stub.List(ctx)
		for _, one := range list {
			if one.ID == id {
				info = one
				return nil
			}
		}
		return errors.Join(err, errors.New("the node doesn't have the network"))
	})
	return info, err
}

// saysRestored reports whether croftd status shows that the workload of that ID was restored, and prints it.
func (n *edge) saysRestored(ctx context.Context, id string) (bool, error) {
	out, err := n.stage.output(ctx, "croftd", "status", "-o", "json", "--run-dir", n.stage.path("run"), "--state-dir", n.stage.path("state"))
	if err != nil {
		return false, err
	}
	var status struct {
		Workloads []struct {
			ID       string `json:"id"`
			Restored int    `json:"restored"`
			Drift    *struct {
				What string `json:"what"`
			} `json:"drift"`
		} `json:"workloads"`
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return false, err
	}
	for _, one := range status.Workloads {
		if one.ID == id && one.Restored > 0 && one.Drift != nil {
			say("croftd status: %s was restored %d time: %s", one.ID, one.Restored, one.Drift.What)
			return true, nil
		}
	}
	return false, fmt.Errorf("workload %s was not restored", id)
}

// volumePath finds the subvolume of a reservation below the node's run folder.
func (n *edge) volumePath(id string) (string, error) {
	for _, root := range []string{n.stage.path("run"), n.stage.path("state")} {
		found, err := filepath.Glob(filepath.Join(root, "*", "*", "volumes", id))
		if err != nil {
			return "", err
		}
		if len(found) == 1 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("there is no volume %s", id)
}

// wantSubvolumes checks that the pool holds just these.
func (n *edge) wantSubvolumes(want int) error {
	var found []string
	for _, root := range []string{n.stage.path("run"), n.stage.path("state")} {
		more, err := filepath.Glob(filepath.Join(root, "*", "*", "volumes", "*"))
		if err != nil {
			return err
		}
		found = append(found, more...)
	}
	// Containers' layers and zdb have file systems of their own.
	found = slices.DeleteFunc(found, func(path string) bool {
		return strings.HasSuffix(path, ".layer") || strings.HasPrefix(filepath.Base(path), "zdb-")
	})
	if len(found) != want {
		return fmt.Errorf("the pool holds %d subvolumes, must be %d: %v", len(found), want, found)
	}
	return nil
}

// wantDropped checks that nothing came of a forgery but a line in the node's log.
func (n *edge) wantDropped(what, id string) error {
	if _, err := n.volumePath(id); err == nil {
		return fmt.Errorf("the node made a volume for a %s reservation", what)
	}
	out, err := n.stage.output(context.Background(), "croftd", append([]string{"status", "-o", "json"}, n.args()...)...)
	if err != nil {
		return err
	}
	if bytes.Contains(out, []byte(id)) {
		return fmt.Errorf("the node keeps a record of a %s reservation: %s", what, out)
	}
	log, err := os.ReadFile(n.process.log)
	if err != nil {
		return err
	}
	for _, line := range bytes.Split(log, []byte("\n")) {
		if bytes.Contains(line, []byte(`"id":"`+id+`"`)) && bytes.Contains(line, []byte("dropped")) {
			say("%s: no volume, no record, a line in the node's log", what)
			return nil
		}
	}
	return fmt.Errorf("the node's log has no line of a %s reservation, %s", what, id)
}
