package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// startExplorer starts the explorer on a free port, with a database in the
// demo's folder, and the liar in front of it.
func startExplorer(ctx context.Context, w *world) error {
	if err := w.explorer.run(ctx); err != nil {
		return err
	}
	liar, err := newLiar(w.explorer.address)
	if err != nil {
		return err
	}
	w.explorer.liar = liar
	say("explorer at http://%s, process %d", w.explorer.address, w.explorer.process.pid())
	return nil
}

// startNode starts the node and waits until the explorer knows it.
func startNode(ctx context.Context, w *world) error {
	if err := w.node.run(ctx, w.explorer.liar.url()); err != nil {
		return err
	}
	err := until(ctx, 20*time.Second, "the node registers itself", func() (bool, error) {
		var nodes []struct {
			NodeID string `json:"node_id"`
		}
		if err := w.user.decoded(ctx, &nodes, "node", "list"); err != nil {
			return false, err
		}
		if len(nodes) == 0 {
			return false, nil
		}
		w.node.id = nodes[0].NodeID
		return true, nil
	})
	if err != nil {
		return err
	}
	say("node %s, process %d", w.node.id, w.node.process.pid())
	out, err := w.user.croft(ctx, "node", "list")
	show(out)
	return err
}

// makeKeys makes a user, and somebody else.
func makeKeys(ctx context.Context, w *world) error {
	for _, one := range []*account{w.user, w.stranger} {
		if err := one.make(ctx); err != nil {
			return err
		}
	}
	say("user %s, key file 0600", w.user.id)
	return nil
}

// make makes the account's key.
func (a *account) make(ctx context.Context) error {
	if _, err := a.croft(ctx, "id", "create"); err != nil {
		return err
	}
	var shown struct {
		ID string `json:"id"`
	}
	if err := a.decoded(ctx, &shown, "id", "show"); err != nil || shown.ID == "" {
		return fmt.Errorf("croft id show printed no ID: %w", err)
	}
	a.id = shown.ID
	info, err := os.Stat(a.stage.path(a.file))
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		return fmt.Errorf("the key file has mode %o, must be 600", mode)
	}
	return nil
}
