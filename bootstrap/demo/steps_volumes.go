package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const gib = 1 << 30

// project is the user's project file.
const project = `project: demo
node: %s
duration: 1h
workloads:
  data:
    volume: {size: 1, type: SSD}
  logs:
    volume: {size: 2, type: SSD}
`

// applyVolumes pushes the project, twice, and waits for the signed results.
func applyVolumes(ctx context.Context, w *world) error {
	file := w.stage.path("demo.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, project, w.node.id), 0o600); err != nil {
		return err
	}
	began := time.Now()
	if _, err := w.user.croft(ctx, "apply", "-f", file, "--wait", "--timeout", "30s"); err != nil {
		return err
	}
	say("applied in %d ms", time.Since(began).Milliseconds())
	table, err := w.user.croft(ctx, "status", "-f", file)
	if err != nil {
		return err
	}
	show(table)
	rows, err := w.user.status(ctx, file)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.State != "ok" || !row.Verified {
			return fmt.Errorf("%s is %q, its result verified: %t", row.Name, row.State, row.Verified)
		}
		w.kept[row.Name] = volume{id: row.ID}
	}
	if len(w.kept) != 2 {
		return fmt.Errorf("%d workloads, must be 2", len(w.kept))
	}
	if _, err := w.user.croft(ctx, "apply", "-f", file, "--wait"); err != nil {
		return err
	}
	again, err := w.user.status(ctx, file)
	if err != nil {
		return err
	}
	for _, row := range again {
		if w.kept[row.Name].id != row.ID {
			return fmt.Errorf("applied twice: %s was %s and is %s", row.Name, w.kept[row.Name].id, row.ID)
		}
	}
	say("each result is signed by the node and verified here; applied again: no change")
	return nil
}

// lookAtVolumes leaves a file in each volume, to be found again later.
func lookAtVolumes(_ context.Context, w *world) error {
	for name, v := range w.kept {
		path, err := w.node.volumePath(v.id)
		if err != nil {
			return err
		}
		// 256 is the inode number of a btrfs subvolume's root.
		var stat syscall.Stat_t
		if err := syscall.Stat(path, &stat); err != nil {
			return err
		}
		if stat.Ino != 256 {
			return fmt.Errorf("%s is a folder, not a subvolume", path)
		}
		if err := os.WriteFile(filepath.Join(path, "note"), []byte("kept by "+name), 0o600); err != nil {
			return err
		}
		v.path = path
		w.kept[name] = v
		say("%s: %s, a btrfs subvolume; left a note in it", name, strings.TrimPrefix(path, w.stage.dir+"/"))
	}
	syscall.Sync()
	return nil
}

// writePastSize writes into the 1 GiB volume until the file system says no.
func writePastSize(ctx context.Context, w *world) error {
	path := filepath.Join(w.kept["data"].path, "big")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	defer f.Close()
	block := make([]byte, 8<<20)
	var written int64
	for written < 2*gib && ctx.Err() == nil {
		var n int
		n, err = f.Write(block)
		written += int64(n)
		if err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("after %d MiB in a volume of 1 GiB: %w, must be 'disk quota exceeded'", written>>20, err)
	}
	if written > gib || written < gib*9/10 {
		return fmt.Errorf("stopped at %d MiB, the volume has 1024", written>>20)
	}
	say("stopped at %d MiB of 1024: %v", written>>20, err)
	return nil
}

func readCounters(ctx context.Context, w *world) error {
	if err := w.user.wantVolumes(ctx, 2); err != nil {
		return err
	}
	out, err := w.user.croft(ctx, "counters", "--bus", w.stage.bus())
	show(out)
	return err
}

// volume is a volume that the demo has reserved.
type volume struct {
	id   string
	path string
}

// volumes are those that the demo keeps, by their names.
type volumes map[string]volume

// wantNotes checks that every volume is there, and is the same one.
func (v volumes) wantNotes() error {
	for name, one := range v {
		note, err := os.ReadFile(filepath.Join(one.path, "note"))
		if err != nil {
			return fmt.Errorf("volume %s is lost: %w", name, err)
		}
		if string(note) != "kept by "+name {
			return fmt.Errorf("volume %s is another one: %q", name, note)
		}
	}
	return nil
}
