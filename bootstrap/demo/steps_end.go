package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// deleteRest deletes the remaining reservations, with deletions that the user signs.
func deleteRest(ctx context.Context, w *world) error {
	for name, v := range w.kept {
		if _, err := w.user.croft(ctx, "delete", v.id, "--wait", "--yes"); err != nil {
			return err
		}
		if _, err := os.Lstat(v.path); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("volume %s was deleted and %s is still there", v.id, v.path)
		}
		if err := w.user.wantState(ctx, v.id, "deleted"); err != nil {
			return err
		}
		say("%s (%s) is gone; the node says so, signed", v.id, name)
	}
	if err := w.user.wantVolumes(ctx, 0); err != nil {
		return err
	}
	return w.node.wantSubvolumes(0)
}

// nothingLeft takes the node down and looks for anything that stayed.
func nothingLeft(ctx context.Context, w *world) error {
	w.node.process.stop()
	w.explorer.process.stop()
	w.objects.stop()
	if err := w.stage.takeBack(ctx, ""); err != nil {
		return err
	}
	left, err := w.stage.leftovers()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("left behind: %s", strings.Join(left, "; "))
	}
	say("no subvolume, no namespace, no mount, no control group, no loop device, no process")
	return nil
}

// lastLine is the end of an error's text, which is the program's output.
func lastLine(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	last := lines[len(lines)-1]
	if _, printed, ok := strings.Cut(last, ": croft: "); ok {
		return printed
	}
	return last
}
