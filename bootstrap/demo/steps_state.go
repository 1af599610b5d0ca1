package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/node"
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

// reload writes the node's settings, and has it read them; it returns what that says.
func (w *world) reload(ctx context.Context, settings string) (string, error) {
	if err := os.WriteFile(w.stage.path("croftd.yaml"), []byte(w.hooks.settings()+settings), 0o600); err != nil {
		return "", err
	}
	out, err := w.stage.output(ctx, "croftd", append([]string{"reload"}, w.node.args()...)...)
	return strings.TrimSpace(string(out)), err
}

// modulePhase waits until a module is shown with a phase and a reason.
func (n *edge) modulePhase(ctx context.Context, name, phase, reason string) error {
	return until(ctx, 20*time.Second, "module "+name+" is "+phase+", "+reason, func() (bool, error) {
		out, err := n.state(ctx, "module", name, "-o", "json")
		if err != nil {
			return false, err
		}
		var m struct {
			Spec struct {
				Phase      string `json:"phase"`
				Conditions []struct {
					Reason string `json:"reason"`
				} `json:"conditions"`
			} `json:"spec"`
		}
		if err := json.Unmarshal(out, &m); err != nil {
			return false, err
		}
		return m.Spec.Phase == phase && len(m.Spec.Conditions) == 1 && m.Spec.Conditions[0].Reason == reason, nil
	})
}

// switchOff switches the module of namespaces off: it stays until the namespace has left, and takes no other.
func switchOff(ctx context.Context, w *world) error {
	said, err := w.reload(ctx, "modules-off: [zdb]\n")
	if err != nil {
		return err
	}
	if err := w.node.modulePhase(ctx, node.ZDBModule, "Running", "WaitsForWorkloads"); err != nil {
		return err
	}
	say("%s; the module waits for %s", said, w.db.id)
	return w.db.wantValues(ctx)
}

// switchedOff checks that the module has closed, and switches it on again.
func switchedOff(ctx context.Context, w *world) error {
	if err := w.node.modulePhase(ctx, node.ZDBModule, "Disabled", "SwitchedOff"); err != nil {
		return err
	}
	if ready, err := w.node.ready(ctx); err != nil || !ready {
		return fmt.Errorf("the node isn't ready without a module that was switched off: %w", err)
	}
	if _, err := w.reload(ctx, ""); err != nil {
		return err
	}
	say("its module has closed, now that nothing needs it; the node is ready; the module is switched on again")
	return w.node.modulePhase(ctx, node.ZDBModule, "Running", "Answers")
}

// changeServers changes the name servers of networks while a container answers requests, then names a wrong one.
func changeServers(ctx context.Context, w *world) error {
	asking, stop := context.WithCancel(ctx)
	asked, lost := 0, make(chan error, 1)
	go func() {
		for asking.Err() == nil {
			if _, err := w.net.get(ctx, w.net.site()); err != nil {
				lost <- err
				return
			}
			asked++
		}
		lost <- nil
	}()
	said, err := w.reload(ctx, "dns-servers: [192.0.2.53]\n")
	if err == nil {
		err = w.node.modulePhase(ctx, node.NetworkModule, "Running", "Answers")
	}
	stop()
	if failed := <-lost; failed != nil {
		return fmt.Errorf("after %d requests one was lost: %w", asked, failed)
	}
	if err != nil {
		return err
	}
	if !strings.Contains(said, "changed: dns-servers; modules restarted: network") || strings.Contains(said, ",") {
		return fmt.Errorf("the reload says %q", said)
	}
	say("%s; %d requests to the container meanwhile, none lost", said, asked)
	if _, err = w.reload(ctx, "dns-servers: [nonsense]\n"); err == nil || !strings.Contains(err.Error(), `dns-servers = "nonsense"`) {
		return fmt.Errorf("wrong settings: %w", err)
	}
	say("a wrong value: %.200v", err)
	if said, err = w.reload(ctx, "dns-servers: [192.0.2.53]\n"); err != nil || !strings.Contains(said, "the settings are the same") {
		return fmt.Errorf("the settings in force are no longer the same: %q, %w", said, err)
	}
	return sameProcess(ctx, w)
}

// hooks are the operator's.
type hooks struct {
	// dir is below a folder that only root can change; empty in demos without hooks.
	dir string
}

func (h hooks) settings() string {
	if h.dir == "" {
		return ""
	}
	return "hooks-dir: " + h.dir + "\n"
}

func (h hooks) remove() {
	if h.dir != "" {
		_ = os.RemoveAll(h.dir)
	}
}

// giveHooks gives the node three hooks: one on drift, one on a schedule, and one that hangs, with a child.
func giveHooks(ctx context.Context, w *world) (err error) {
	if w.hooks.dir, err = os.MkdirTemp("/run", "croft-demo-hooks-"); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"drift": "on: {events: [{reason: Drifted}]}\nrun: [/bin/sh, -c, 'echo $CROFT_EVENT_OBJECT_TYPE/$CROFT_EVENT_OBJECT_ID >> %s/drifted']\nqueue: events\n",
		"tick":  "on: {cron: \"@every 5s\"}\nrun: [/bin/sh, -c, 'date >> %s/ticks']\nqueue: ticks\n",
		"hang":  "on: {cron: \"@every 5s\"}\nrun: [/bin/sh, -c, 'sleep 1000 & echo $! > %s/child; sleep 1000']\ntimeout: 1s\nqueue: slow\n",
	} {
		if err := os.WriteFile(filepath.Join(w.hooks.dir, name+".yaml"), fmt.Appendf(nil, text, w.hooks.dir), 0o600); err != nil {
			return err
		}
	}
	if _, err := w.reload(ctx, ""); err != nil {
		return err
	}
	table, err := w.node.state(ctx, "hooks")
	if err != nil {
		return err
	}
	show(table)
	return nil
}

// whatHooksDid checks that each hook did what it should, and that the one that hung was ended with its child.
func whatHooksDid(ctx context.Context, w *world) error {
	file := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(w.hooks.dir, name))
		return string(text)
	}
	err := until(ctx, 30*time.Second, "the hooks have run", func() (bool, error) {
		return strings.Contains(file("drifted"), "network/"+w.net.info.Label) && strings.Count(file("ticks"), "\n") >= 2 && file("child") != "", nil
	})
	if err != nil {
		return fmt.Errorf("%w; drifted %q, ticks %q, child %q", err, file("drifted"), file("ticks"), file("child"))
	}
	var runs []byte
	err = until(ctx, 30*time.Second, "the one that hangs is ended", func() (bool, error) {
		runs, err = w.node.state(ctx, "hookruns")
		return err == nil && strings.Contains(string(runs), "it was killed after its timeout"), err
	})
	if err != nil {
		return err
	}
	show(runs)
	child := strings.TrimSpace(file("child"))
	err = until(ctx, 30*time.Second, "its child has ended", func() (bool, error) {
		cmdline, err := os.ReadFile(filepath.Join("/proc", child, "cmdline"))
		return os.IsNotExist(err) || err == nil && !strings.Contains(string(cmdline), "sleep"), nil
	})
	if err != nil {
		return err
	}
	say("the hook on drift has run, the one each 5 s %d times; the one that hung was ended with its child, process %s", strings.Count(file("ticks"), "\n"), child)
	return nil
}

// dump writes down all that the node knows, and searches it for every secret of the demo.
func dump(ctx context.Context, w *world) error {
	text, err := w.stage.output(ctx, "croft", "dump", "--debug-socket", w.stage.path("run", "debug.sock"))
	if err != nil {
		return err
	}
	secrets := map[string]string{"the S3 server's key": objectsSecret}
	for _, name := range []string{"user.seed", "recovery.seed", filepath.Join("state", "identity", "seed"), filepath.Join("state", "state.key")} {
		raw, err := os.ReadFile(w.stage.path(name))
		if err != nil {
			return err
		}
		secrets[name], secrets[name+" in hexadecimal"], secrets[name+" in base64"] = strings.TrimSpace(string(raw)), hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw)
	}
	for name, secret := range secrets {
		if strings.Contains(string(text), secret) {
			return fmt.Errorf("croft dump shows %s", name)
		}
	}
	for _, part := range []string{"resources:", "settings:", "hooks:", "graph:", "goroutines:"} {
		if !strings.Contains(string(text), part) {
			return fmt.Errorf("croft dump has no part %q", part)
		}
	}
	say("croft dump: %d KiB, and none of %d secrets in it", len(text)/1024, len(secrets))
	return nil
}
