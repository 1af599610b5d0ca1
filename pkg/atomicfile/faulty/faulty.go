// Package faulty breaks the steps of atomicfile on purpose, for tests: a
// process that dies at a step, a step that fails, a power cut that loses unsynced
// changes. It touches only the files that those steps touched.
package faulty

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
)

// ErrDied is the error of a dead process's steps.
var ErrDied = errors.New("the process died here")

// Disk watches all steps, and breaks one. Its Hook is for atomicfile.
type Disk struct {
	mu sync.Mutex
	// seen counts the points since the last Arm.
	seen  int
	at    int
	cause error
	// dies makes every step after the broken one fail, too.
	dies, dead bool
	fired      atomicfile.Point
	wrong      []string

	// dirty holds the written, unsynced files; undos the changes that a power
	// cut takes back, oldest first.
	dirty map[string]bool
	undos []undo
	saved map[string]saved
}

// undo restores a path's content from before a change that isn't durable yet.
type undo struct {
	folder string
	path   string
	was    saved
}

type saved struct {
	data  []byte
	there bool
}

// New makes a disk that breaks nothing yet.
func New() *Disk {
	return &Disk{at: -1, dirty: map[string]bool{}, saved: map[string]saved{}}
}

// DieAt makes the process die at the n-th point from now, 0 the next one. A
// negative n breaks nothing.
func (d *Disk) DieAt(n int) { d.arm(n, ErrDied, true) }

// FailAt makes the n-th point from now fail with cause, and only that one.
func (d *Disk) FailAt(n int, cause error) { d.arm(n, cause, false) }

func (d *Disk) arm(n int, cause error, dies bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen, d.at, d.cause, d.dies, d.dead = 0, n, cause, dies, false
	d.fired = atomicfile.Point{}
}

// Seen is the number of points passed since the disk was armed.
func (d *Disk) Seen() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen
}

// Fired is the point that was broken; its Op is empty when none was.
func (d *Disk) Fired() atomicfile.Point {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fired
}

// Wrong lists the steps in a wrong order: renames of unsynced files.
func (d *Disk) Wrong() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.wrong...)
}

// Hook is the Hook for atomicfile.
func (d *Disk) Hook(p atomicfile.Point) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return ErrDied
	}
	if p.After {
		d.done(p)
	}
	n := d.seen
	d.seen++
	if n == d.at {
		d.fired, d.dead = p, d.dies
		return d.cause
	}
	if !p.After {
		d.begin(p)
	}
	return nil
}

// begin saves the state that a step will change.
func (d *Disk) begin(p atomicfile.Point) {
	switch p.Op {
	case atomicfile.Rename, atomicfile.Remove, atomicfile.Move:
		d.saved[p.Path] = read(p.Path)
	case atomicfile.Write:
		d.dirty[p.Path] = true
	}
	if temp := filepath.Join(filepath.Dir(p.Path), ".tmp-"+filepath.Base(p.Path)); p.Op == atomicfile.Rename && d.dirty[temp] {
		d.wrong = append(d.wrong, "renamed before it was synced: "+p.Path)
	}
}

// done records a step's changes, and those that are durable now.
func (d *Disk) done(p atomicfile.Point) {
	switch p.Op {
	case atomicfile.Sync:
		delete(d.dirty, p.Path)
	case atomicfile.Rename, atomicfile.Remove:
		d.undos = append(d.undos, undo{folder: filepath.Dir(p.Path), path: p.Path, was: d.saved[p.Path]})
	case atomicfile.SyncDir:
		kept := d.undos[:0]
		for _, u := range d.undos {
			if u.folder != p.Path {
				kept = append(kept, u)
			}
		}
		d.undos = kept
	}
}

// Volatile is the number of changes that a power cut could take back now.
func (d *Disk) Volatile() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.undos)
}

// CutPower takes back all changes that aren't durable but the first kept ones,
// and empties the files that weren't synced. The process must be dead.
func (d *Disk) CutPower(kept int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path := range d.dirty {
		if err := os.Truncate(path, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Wrap(err, "cannot cut power")
		}
	}
	for i := len(d.undos) - 1; i >= kept; i-- {
		if err := d.undos[i].back(); err != nil {
			return err
		}
	}
	return nil
}

func (u undo) back() error {
	if !u.was.there {
		err := os.Remove(u.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Wrap(err, "cannot cut power")
	}
	return errors.Wrap(os.WriteFile(u.path, u.was.data, atomicfile.Mode), "cannot cut power")
}

func read(path string) saved {
	data, err := os.ReadFile(path)
	return saved{data: data, there: err == nil}
}
