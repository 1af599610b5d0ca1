package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// world is everything that the demo has made.
type world struct {
	stage    *stage
	explorer *explorer
	node     *edge
	// user asks for everything; stranger is somebody else.
	user, stranger *account
	kept           volumes
	net            private
	db             store
}

func newWorld(bin string) (*world, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	// /var/tmp is on a disk: /tmp may be memory, too small for a pool.
	dir, err := os.MkdirTemp("/var/tmp", "croft-demo-")
	if err != nil {
		return nil, err
	}
	// A container's root is nobody on the node, and walks through this folder.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "croftd.yaml"), nil, 0o600); err != nil {
		return nil, err
	}
	say("everything happens in %s", dir)
	links, err := croftLinks()
	s := &stage{bin: bin, dir: dir, links: links}
	e := &explorer{stage: s}
	return &world{
		stage: s, explorer: e, node: &edge{stage: s}, kept: volumes{},
		user: &account{stage: s, explorer: e, file: "user.seed"}, stranger: &account{stage: s, explorer: e, file: "stranger.seed"},
	}, err
}

// close takes everything down, whatever state it is in.
func (w *world) close() error {
	w.node.process.stop()
	w.explorer.process.stop()
	if w.explorer.liar != nil {
		w.explorer.liar.close()
	}
	if err := w.db.outside.leave(); err != nil {
		return fmt.Errorf("cannot take the other machine away, %s stays: %w", w.stage.dir, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := os.Stat(w.stage.path("state")); err == nil {
		if left, err := w.stage.leftovers(); err != nil || len(left) > 0 {
			if err := w.stage.takeBack(ctx, "--force"); err != nil {
				return fmt.Errorf("cannot take the machine back, %s stays: %w", w.stage.dir, err)
			}
		}
	}
	left, err := w.stage.leftovers()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("left behind, %s stays: %s", w.stage.dir, strings.Join(left, "; "))
	}
	return os.RemoveAll(w.stage.dir)
}
