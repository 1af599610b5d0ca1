package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// crashAlone takes the explorer away, kills the node, and starts it alone.
func crashAlone(ctx context.Context, w *world) error {
	w.explorer.process.stop()
	say("explorer stopped")
	w.node.process.kill()
	say("node killed with SIGKILL, process %d", w.node.process.pid())
	if err := w.kept.wantNotes(); err != nil {
		return err
	}
	if _, err := w.net.get(ctx, w.net.site()); err != nil {
		return fmt.Errorf("the network has ended with the node: %w", err)
	}
	if err := w.db.wantValues(ctx); err != nil {
		return fmt.Errorf("zdb has ended with the node: %w", err)
	}
	say("volumes, network, containers and zdb didn't notice: notes are there, and the site and the namespace answer while no agent runs")
	if err := w.node.run(ctx, w.explorer.liar.url()); err != nil {
		return err
	}
	say("node started, process %d, without an explorer", w.node.process.pid())
	if err := w.user.wantVolumes(ctx, 2); err != nil {
		return err
	}
	if err := w.kept.wantNotes(); err != nil {
		return err
	}
	if err := sameProcess(ctx, w); err != nil {
		return err
	}
	if err := sameZDB(ctx, w); err != nil {
		return err
	}
	say("counters and volumes are right from the first value on, and the processes of containers and of zdb are the same")
	return w.node.wantSubvolumes(2)
}

// explorerReturns starts the explorer and checks that the same reservations
// are answered with the same results, and that the node takes new ones.
func explorerReturns(ctx context.Context, w *world) error {
	if err := w.explorer.run(ctx); err != nil {
		return err
	}
	rows, err := w.user.status(ctx, w.stage.path("demo.yaml"))
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.ID != w.kept[row.Name].id || row.State != "ok" || !row.Verified {
			return fmt.Errorf("%s is now %s, %q, verified: %t", row.Name, row.ID, row.State, row.Verified)
		}
	}
	id, err := w.user.push(ctx, w.node.id, `{"size":1,"type":"SSD"}`, "1h")
	if err != nil {
		return err
	}
	if err := w.user.wantState(ctx, id, "ok"); err != nil {
		return err
	}
	path, err := w.node.volumePath(id)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+"/note", []byte("kept by "+id), 0o600); err != nil {
		return err
	}
	w.kept[id] = volume{id: id, path: path}
	if err := w.user.wantVolumes(ctx, 3); err != nil {
		return err
	}
	say("the old results are there, and a new reservation, %s, was carried out", id)
	return w.node.wantSubvolumes(3)
}

// letOneExpire reserves for four seconds and watches it go.
func letOneExpire(ctx context.Context, w *world) error {
	id, err := w.user.push(ctx, w.node.id, `{"size":1,"type":"SSD"}`, "4s")
	if err != nil {
		return err
	}
	if err := w.user.wantState(ctx, id, "ok"); err != nil {
		return err
	}
	say("%s is there, for 4 s", id)
	if err := w.user.wantState(ctx, id, "expired"); err != nil {
		return err
	}
	say("%s has expired; the node says so, signed", id)
	if _, err := w.node.volumePath(id); err == nil {
		return fmt.Errorf("volume %s has expired and is still there", id)
	}
	return w.node.wantSubvolumes(3)
}

// forgeries are documents that must come to nothing.
type forgeries struct {
	tampered, foreign, replayed json.RawMessage
}

// forge makes the three of one document that the user really signed.
func forge(ctx context.Context, w *world) (forgeries, error) {
	genuine, err := w.user.sign(ctx, w.node.id, `{"size":1,"type":"SSD"}`, "1h")
	if err != nil {
		return forgeries{}, err
	}
	tampered := bytes.Replace(genuine, []byte(`"size":1`), []byte(`"size":4`), 1)
	if bytes.Equal(tampered, genuine) {
		return forgeries{}, fmt.Errorf("the document has no size to tamper with: %s", genuine)
	}
	foreign, err := w.user.croft(ctx, "reservation", "sign", "--node", w.stranger.id, "--type", "volume",
		"--data", `{"size":1,"type":"SSD"}`, "--duration", "1h")
	if err != nil {
		return forgeries{}, err
	}
	replayed, err := w.user.croft(ctx, "reservation", "get", w.kept["data"].id)
	return forgeries{tampered: tampered, foreign: foreign, replayed: replayed}, err
}

// refusedByExplorer pushes the three the way anybody could.
func refusedByExplorer(ctx context.Context, w *world) error {
	f, err := forge(ctx, w)
	if err != nil {
		return err
	}
	if _, err = w.user.pushDocument(ctx, f.tampered); err == nil {
		return fmt.Errorf("the explorer took a tampered reservation")
	}
	say("tampered: %s", lastLine(err))
	if _, err = w.user.pushDocument(ctx, f.foreign); err == nil {
		return fmt.Errorf("the explorer took a reservation for a node that it doesn't know")
	}
	say("foreign:  %s", lastLine(err))
	id, err := w.user.pushDocument(ctx, withoutAnswer(f.replayed))
	if err == nil && id != w.kept["data"].id {
		return fmt.Errorf("the explorer took a replay as %s", id)
	}
	if err != nil {
		say("replayed: %s", lastLine(err))
	} else {
		say("replayed: it is %s already, and stays that", id)
	}
	return w.node.wantSubvolumes(3)
}

// withID gives a document another ID, as only an explorer could.
func withID(document json.RawMessage, id string) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(document, &members); err != nil {
		return nil, err
	}
	delete(members, "result")
	members["id"] = json.RawMessage(`"` + id + `"`)
	return joinObject(members), nil
}

// withoutAnswer is the document as the user sent it.
func withoutAnswer(document json.RawMessage) json.RawMessage {
	out, err := withID(document, "")
	if err != nil {
		return document
	}
	return out
}

// refusedByNode lets the explorer lie to the node.
func refusedByNode(ctx context.Context, w *world) error {
	f, err := forge(ctx, w)
	if err != nil {
		return err
	}
	var lies []json.RawMessage
	for i, document := range []json.RawMessage{f.tampered, f.foreign, f.replayed} {
		lie, err := withID(document, fmt.Sprintf("%d-1", 900001+i))
		if err != nil {
			return err
		}
		lies = append(lies, lie)
	}
	w.explorer.liar.lie(lies...)
	// A genuine push wakes the node's poll; the lie travels with it.
	id, err := w.user.push(ctx, w.node.id, `{"size":1,"type":"SSD"}`, "1h")
	if err != nil {
		return err
	}
	if err := w.user.wantState(ctx, id, "ok"); err != nil {
		return err
	}
	if err := until(ctx, 20*time.Second, "the lie is told", func() (bool, error) { return w.explorer.liar.told(), nil }); err != nil {
		return err
	}
	say("the explorer slipped three documents into a genuine answer")
	// The node answers what was validly signed: the replay. That it has
	// answered shows that it is through with the page.
	err = until(ctx, 20*time.Second, "the node refuses the replay", func() (bool, error) {
		for _, body := range w.explorer.liar.results() {
			var r struct{ ID, State, Error string }
			if json.Unmarshal(body, &r) == nil && r.ID == "900003-1" && r.State == "error" {
				say("replayed: the node's signed answer: %s", r.Error)
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	if err := w.node.wantDropped("tampered", "900001-1"); err != nil {
		return err
	}
	if err := w.node.wantDropped("foreign", "900002-1"); err != nil {
		return err
	}
	if _, err := w.user.croft(ctx, "delete", id, "--wait", "--yes"); err != nil {
		return err
	}
	if err := w.user.wantVolumes(ctx, 3); err != nil {
		return err
	}
	return w.node.wantSubvolumes(3)
}
