package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const gib = 1 << 30

// project is what a user writes down.
const project = `project: demo
node: %s
duration: 1h
workloads:
  data:
    volume: {size: 1, type: SSD}
  logs:
    volume: {size: 2, type: SSD}
`

// shown is one line of croft status, as JSON.
type shown struct {
	Name     string `json:"name"`
	ID       string `json:"id"`
	State    string `json:"state"`
	Verified bool   `json:"verified"`
	Detail   string `json:"detail"`
}

// applyVolumes pushes the project, twice, and waits for the signed results.
func applyVolumes(ctx context.Context, w *world) error {
	file := w.path("demo.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, project, w.nodeID), 0o600); err != nil {
		return err
	}
	began := time.Now()
	if _, err := w.croft(ctx, "apply", "-f", file, "--wait", "--timeout", "30s"); err != nil {
		return err
	}
	say("applied in %d ms", time.Since(began).Milliseconds())
	table, err := w.croft(ctx, "status", "-f", file)
	if err != nil {
		return err
	}
	show(table)
	rows, err := w.status(ctx, file)
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
	if _, err := w.croft(ctx, "apply", "-f", file, "--wait"); err != nil {
		return err
	}
	again, err := w.status(ctx, file)
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

func (w *world) status(ctx context.Context, file string) ([]shown, error) {
	var rows []shown
	err := w.croftJSON(ctx, &rows, "status", "-f", file)
	return rows, err
}

// volumePath finds the subvolume of a reservation below the node's run folder.
func (w *world) volumePath(id string) (string, error) {
	for _, root := range []string{w.path("run"), w.path("state")} {
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

// lookAtVolumes leaves a file in each volume, to be found again later.
func lookAtVolumes(_ context.Context, w *world) error {
	for name, v := range w.kept {
		path, err := w.volumePath(v.id)
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
		say("%s: %s, a btrfs subvolume; left a note in it", name, strings.TrimPrefix(path, w.dir+"/"))
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

// counters are the node's, as another process reads them over the bus.
type counters struct {
	Volume int64 `json:"volume"`
}

func (w *world) counters(ctx context.Context) (counters, error) {
	out, err := w.croft(ctx, "-o", "json", "counters", "--bus", "unix://"+w.path("run", "bus.sock"))
	if err != nil {
		return counters{}, err
	}
	var c counters
	return c, json.Unmarshal(out, &c)
}

func (w *world) wantVolumes(ctx context.Context, want int64) error {
	return until(ctx, 15*time.Second, fmt.Sprintf("the counters say %d volumes", want), func() (bool, error) {
		c, err := w.counters(ctx)
		if err != nil {
			return false, err
		}
		if c.Volume != want {
			return false, fmt.Errorf("they say %d", c.Volume)
		}
		return true, nil
	})
}

func readCounters(ctx context.Context, w *world) error {
	if err := w.wantVolumes(ctx, 2); err != nil {
		return err
	}
	out, err := w.croft(ctx, "counters", "--bus", "unix://"+w.path("run", "bus.sock"))
	show(out)
	return err
}

// wantNotes checks that every volume is there, and is the same one.
func (w *world) wantNotes() error {
	for name, v := range w.kept {
		note, err := os.ReadFile(filepath.Join(v.path, "note"))
		if err != nil {
			return fmt.Errorf("volume %s is lost: %w", name, err)
		}
		if string(note) != "kept by "+name {
			return fmt.Errorf("volume %s is another one: %q", name, note)
		}
	}
	return nil
}

// wantSubvolumes checks that the pool holds just these.
func (w *world) wantSubvolumes(want int) error {
	var found []string
	for _, root := range []string{w.path("run"), w.path("state")} {
		more, err := filepath.Glob(filepath.Join(root, "*", "*", "volumes", "*"))
		if err != nil {
			return err
		}
		found = append(found, more...)
	}
	// What a container writes beside its volumes has a file system of its own, and so has zdb.
	found = slices.DeleteFunc(found, func(path string) bool {
		return strings.HasSuffix(path, ".layer") || strings.HasPrefix(filepath.Base(path), "zdb-")
	})
	if len(found) != want {
		return fmt.Errorf("the pool holds %d subvolumes, must be %d: %v", len(found), want, found)
	}
	return nil
}
