package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// document is a resource of the node's state, as croft get prints it.
type document struct {
	Metadata struct {
		Version    string   `json:"version"`
		Owner      string   `json:"owner"`
		Finalizers []string `json:"finalizers"`
	} `json:"metadata"`
	Spec struct {
		ID      string    `json:"id"`
		Phase   string    `json:"phase"`
		Expires time.Time `json:"expires"`
		Reason  string    `json:"reason"`
		Object  string    `json:"object"`
	} `json:"spec"`
}

// state reads the node's state as its operator.
func (n *edge) state(ctx context.Context, args ...string) ([]byte, error) {
	return n.stage.output(ctx, "croft", append([]string{"get", "--state-socket", n.stage.path("run", "state.sock")}, args...)...)
}

// watchState has every change of a workload written down from now on.
func watchState(_ context.Context, w *world) error {
	p, err := w.stage.start("watch", "croft", "get", "workloads", "--watch", "-o", "json", "--state-socket", w.stage.path("run", "state.sock"))
	if err != nil {
		return err
	}
	w.watch = p
	say("croft get workloads --watch, process %d; what it has seen is checked in the end", p.pid())
	return nil
}

// whoUsesWhat shows that the container holds its volume, before and after the volume is renewed.
func whoUsesWhat(ctx context.Context, w *world) error {
	id, user := w.kept["data"].id, "container/"+w.net.web.id
	if _, err := w.node.state(ctx, "workload", w.net.web.id, "--wait-for", "Provisioned", "--timeout", "30s"); err != nil {
		return err
	}
	before, err := w.node.workload(ctx, id)
	if err != nil {
		return err
	}
	if _, err := w.user.croft(ctx, "renew", id, "--for", "2h"); err != nil {
		return err
	}
	var after document
	err = until(ctx, 20*time.Second, "the node has the renewal", func() (bool, error) {
		after, err = w.node.workload(ctx, id)
		return err == nil && after.Spec.Expires.After(before.Spec.Expires), err
	})
	if err != nil {
		return err
	}
	if before.Metadata.Version == after.Metadata.Version || after.Metadata.Owner != "Engine" || !slices.Equal(after.Metadata.Finalizers, []string{user}) {
		return fmt.Errorf("before the renewal %+v, after it %+v; the volume's user is %s", before.Metadata, after.Metadata, user)
	}
	say("volume %s: version %s before its renewal, %s after it; owner %s; finalizer %s", id, before.Metadata.Version, after.Metadata.Version,
		after.Metadata.Owner, strings.Join(after.Metadata.Finalizers, ", "))
	table, err := w.node.state(ctx, "workloads")
	if err != nil {
		return err
	}
	show(table)
	events, err := w.user.croft(ctx, "events", id)
	if err != nil {
		return err
	}
	if !strings.Contains(string(events), "Updated") {
		return fmt.Errorf("croft events doesn't say that the volume was renewed: %s", events)
	}
	say("croft events, for its user:")
	show(events)
	return nil
}

func (n *edge) workload(ctx context.Context, id string) (s document, err error) {
	out, err := n.state(ctx, "workload", id, "-o", "json")
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	return s, err
}

// whatWasSeen checks the lives that the watch has seen, and the events, which have outlived the node's kill.
func whatWasSeen(ctx context.Context, w *world) error {
	w.watch.stop()
	lives, err := w.stage.seen("watch.log")
	if err != nil {
		return err
	}
	data := lives[w.kept["data"].id]
	if !inOrder(data, "intent", "deployed") {
		return fmt.Errorf("the watch saw the volume's phases %v, must have intent before deployed", data)
	}
	say("the watch saw %d workloads; %s: %s", len(lives), w.kept["data"].id, strings.Join(data, ", "))
	out, err := w.node.state(ctx, "events", "-o", "json")
	if err != nil {
		return err
	}
	var events []document
	if err := json.Unmarshal(out, &events); err != nil {
		return err
	}
	reasons := map[string]bool{}
	for _, e := range events {
		reasons[e.Spec.Reason] = true
	}
	for _, want := range []string{"Created", "Updated", "Deleted", "Drifted", "Restored", "Synced", "Expired"} {
		if !reasons[want] {
			return fmt.Errorf("croft get events has no event %s", want)
		}
	}
	say("croft get events has what has happened since the start, before the node was killed, too: %d reasons", len(reasons))
	return nil
}

// seen are the phases of each workload in a log of croft get --watch, each change once.
func (s *stage) seen(log string) (map[string][]string, error) {
	f, err := os.Open(s.path(log))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string][]string{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one document
		if json.Unmarshal(lines.Bytes(), &one) != nil || one.Spec.ID == "" {
			continue // the last line may say why it has ended
		}
		if phases := out[one.Spec.ID]; len(phases) == 0 || phases[len(phases)-1] != one.Spec.Phase {
			out[one.Spec.ID] = append(phases, one.Spec.Phase)
		}
	}
	return out, lines.Err()
}

// inOrder reports whether all has want, in that order.
func inOrder(all []string, want ...string) bool {
	for _, one := range all {
		if len(want) > 0 && one == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}
