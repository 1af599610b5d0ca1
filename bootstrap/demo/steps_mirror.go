package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// objects is the S3 server that keeps the mirror of the node's store.
type objects struct {
	// program is its path; empty in demos without it.
	program, address string
	process          *process
	stdin            io.Closer
	// instance is the mirror's name, recovery the operator's recovery key.
	instance string
	recovery *account
}

// mirrorSteps are those of make demo-state.
func mirrorSteps() []step {
	return []step{
		{"start an explorer", startExplorer},
		{"start an S3 server, and a node with a mirror of its store there", startMirrored},
		{"make a user's key", makeKeys},
		{"push signed reservations; the node makes real volumes", applyVolumes},
		{"look at the volumes on the node's disk", lookAtVolumes},
		{"make a private network with croft's own commands", makeNetwork},
		{"run two containers on it; one mounts a volume and serves HTTP", runContainers},
		{"give the node hooks: one on drift, one each 5 s, one that hangs", giveHooks},
		{"change the networks' name servers while it answers; then name a wrong one", changeServers},
		{"remove its bridge behind the node's back", breakNetwork},
		{"look at what the hooks did", whatHooksDid},
		{"write down all that the node knows, and search it for secrets", dump},
		{"look at the mirror: it has the whole store, sealed", lookAtMirror},
		{"stop the S3 server: the node stays ready, warns, and goes on", stopObjects},
		{"start it again: the mirror is whole again", startObjects},
		{"kill the node, remove its store, restore it from the mirror", restoreStore},
		{"the same without the node's key: the recovery key has it", restoreNode},
		{"end the containers and the network, signed", leaveNetwork},
		{"delete the rest, signed", deleteRest},
		{"take the machine back: nothing is left", nothingLeft},
	}
}

// The keys of the S3 server. It listens on this machine alone.
const (
	objectsAccess = "demo"
	objectsSecret = "demo-secret"
	objectsBucket = "croft"
)

// run starts the server, on the address that it had before.
func (o *objects) run(ctx context.Context, s *stage) error {
	address := o.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	log := s.path("s3server.log")
	_ = os.Remove(log)
	cmd := exec.Command(o.program, "-folder", s.path("objects"), "-bucket", objectsBucket, "-address", address)
	cmd.Env = []string{"S3SERVER_ACCESS=" + objectsAccess, "S3SERVER_SECRET=" + objectsSecret}
	var err error
	if o.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if o.process, err = s.begin("s3server", cmd); err != nil {
		return err
	}
	return until(ctx, 20*time.Second, "the S3 server listens", func() (bool, error) {
		text, err := os.ReadFile(log)
		if err != nil || !o.process.running() {
			return false, errors.Join(err, errors.New("it has ended"))
		}
		_, rest, found := strings.Cut(string(text), "listening on ")
		o.address, _, _ = strings.Cut(rest, "\n")
		return found && o.address != "", nil
	})
}

func (o *objects) stop() {
	if o.stdin != nil {
		_ = o.stdin.Close()
	}
	o.process.stop()
}

// place is where the mirror is, as the node's settings have it.
func (o *objects) place() string {
	return "s3://" + o.address + "/" + objectsBucket + "?path-style=true&tls=false"
}

// startMirrored starts the server, and a node that may use it.
func startMirrored(ctx context.Context, w *world) error {
	if err := w.objects.run(ctx, w.stage); err != nil {
		return err
	}
	secrets := w.stage.path("secrets")
	if err := os.Mkdir(secrets, 0o700); err != nil {
		return err
	}
	for name, text := range map[string]string{"s3-access": objectsAccess, "s3-secret": objectsSecret} {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(text), 0o400); err != nil {
			return err
		}
	}
	w.objects.recovery = &account{stage: w.stage, explorer: w.explorer, file: "recovery.seed"}
	if err := w.objects.recovery.make(ctx); err != nil {
		return err
	}
	w.node.more = []string{"--mirrors", w.objects.place(), "--secrets-dir", secrets, "--recovery-key", w.objects.recovery.id}
	say("mirrors: %s", w.objects.place())
	return startNode(ctx, w)
}

// mirror is what the node says of its mirror.
type mirror struct {
	Instance string `json:"instance"`
	Up       bool   `json:"up"`
	Lag      int    `json:"lag"`
	Complete bool   `json:"complete"`
	Error    string `json:"error"`
}

// mirror reads the state of the node's mirror.
func (n *edge) mirror(ctx context.Context) (mirror, error) {
	out, err := n.state(ctx, "stores", "-o", "json")
	if err != nil {
		return mirror{}, err
	}
	var all []struct {
		Spec struct {
			Mirror *mirror `json:"mirror"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(out, &all); err != nil {
		return mirror{}, err
	}
	for _, one := range all {
		if one.Spec.Mirror != nil {
			return *one.Spec.Mirror, nil
		}
	}
	return mirror{}, fmt.Errorf("croft get stores has no mirror: %s", out)
}

// wholeMirror waits until the mirror has all of the store.
func (n *edge) wholeMirror(ctx context.Context) (mirror, error) {
	var last mirror
	err := until(ctx, 30*time.Second, "the mirror has the whole store", func() (bool, error) {
		var err error
		last, err = n.mirror(ctx)
		return last.Up && last.Complete && last.Lag == 0 && last.Error == "", err
	})
	return last, err
}

func lookAtMirror(ctx context.Context, w *world) error {
	is, err := w.node.wholeMirror(ctx)
	if err != nil {
		return err
	}
	w.objects.instance = is.Instance
	table, err := w.node.state(ctx, "stores")
	if err != nil {
		return err
	}
	show(table)
	count := 0
	err = filepath.WalkDir(w.stage.path("objects", "objects"), func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text)+path, w.user.id) {
			err = fmt.Errorf("%s names the user", path)
		}
		count++
		return err
	})
	if err != nil {
		return err
	}
	say("the bucket has %d objects, and none of them shows the user's ID", count)
	return nil
}

// stopObjects stops the server, and has the node work meanwhile.
func stopObjects(ctx context.Context, w *world) error {
	w.objects.stop()
	id, err := w.user.push(ctx, w.node.id, `{"size":1,"type":"SSD"}`, "1h")
	if err == nil {
		err = w.user.wantState(ctx, id, "ok")
	}
	if err != nil {
		return err
	}
	path, err := w.node.volumePath(id)
	if err != nil {
		return err
	}
	w.kept["late"] = volume{id: id, path: path}
	if err := os.WriteFile(path+"/note", []byte("kept by late"), 0o600); err != nil {
		return err
	}
	var last mirror
	err = until(ctx, 30*time.Second, "the node says that its mirror is behind", func() (bool, error) {
		last, err = w.node.mirror(ctx)
		return last.Lag > 0 && last.Error != "", err
	})
	if err != nil {
		return err
	}
	if ready, err := w.node.ready(ctx); err != nil || !ready {
		return fmt.Errorf("the node isn't ready without its mirror: %w", err)
	}
	say("ready; %s is %d files behind: %.100s", last.Instance, last.Lag, last.Error)
	return nil
}

// startObjects starts the server again.
func startObjects(ctx context.Context, w *world) error {
	if err := w.objects.run(ctx, w.stage); err != nil {
		return err
	}
	if _, err := w.node.wholeMirror(ctx); err != nil {
		return err
	}
	var events []byte
	err := until(ctx, 10*time.Second, "the events tell of both", func() (bool, error) {
		var err error
		events, err = w.node.state(ctx, "events")
		return strings.Contains(string(events), "MirrorBehind") && strings.Contains(string(events), "MirrorSynced"), err
	})
	if err != nil {
		return err
	}
	say("the lag is 0; events MirrorBehind and MirrorSynced")
	return nil
}

// restored restores the store of the killed node, starts it, and checks that all is as it was.
func (w *world) restored(ctx context.Context, flags ...string) error {
	order := append([]string{"store", "restore", "--state-dir", w.stage.path("state"), "--run-dir", w.stage.path("run")}, w.node.more...)
	out, err := w.stage.output(ctx, "croftd", append(order, flags...)...)
	if err != nil {
		return err
	}
	show(out)
	if err := w.node.run(ctx, w.explorer.liar.url()); err != nil {
		return err
	}
	if err := w.user.wantVolumes(ctx, int64(len(w.kept))); err != nil {
		return err
	}
	if err := w.kept.wantNotes(); err != nil {
		return err
	}
	if err := sameProcess(ctx, w); err != nil {
		return err
	}
	for _, v := range w.kept {
		if err := w.user.wantState(ctx, v.id, "ok"); err != nil {
			return err
		}
	}
	orphans, err := w.node.state(ctx, "orphans", "-o", "json")
	if err != nil || strings.TrimSpace(string(orphans)) != "[]" {
		return fmt.Errorf("the node has orphans: %s, %w", orphans, err)
	}
	say("everything is adopted, the container's process is the same, and every result is there, once")
	return w.node.wantSubvolumes(len(w.kept))
}

func restoreStore(ctx context.Context, w *world) error {
	w.node.process.kill()
	if err := os.RemoveAll(w.stage.path("state", "store")); err != nil {
		return err
	}
	say("node killed, its store removed; croftd store restore --from %s", w.objects.instance)
	return w.restored(ctx, "--from", w.objects.instance)
}

func restoreNode(ctx context.Context, w *world) error {
	if _, err := w.node.wholeMirror(ctx); err != nil {
		return err
	}
	w.node.process.kill()
	for _, name := range []string{"store", "identity", "history.db", "state.key"} {
		if err := os.RemoveAll(w.stage.path("state", name)); err != nil {
			return err
		}
	}
	say("node killed, its store and its key removed; croftd store restore --recovery-seed recovery.seed")
	return w.restored(ctx, "--from", w.objects.instance, "--recovery-seed", w.stage.path(w.objects.recovery.file), "--machine", w.node.id)
}
