package volume

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/btrfs"
)

// index holds, outside a pool, the names of things that may be on it: one empty
// file each. It is read only when the pool can't be. A name is added before the
// thing is made and removed after it; Prepare corrects the index. Without a folder it holds nothing.
type index struct {
	dir string
	// what names the things in errors.
	what string
}

func (i index) path(name string) string { return filepath.Join(i.dir, name) }

func (i index) add(name string) error {
	if i.dir == "" {
		return nil
	}
	f, err := os.OpenFile(i.path(name), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	return btrfs.Wrap(err, "cannot note %s %s", i.what, name)
}

func (i index) remove(name string) error {
	if i.dir == "" {
		return nil
	}
	err := os.Remove(i.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return btrfs.Wrap(err, "cannot forget %s %s", i.what, name)
}

func (i index) has(name string) bool {
	if i.dir == "" {
		return false
	}
	_, err := os.Lstat(i.path(name))
	return err == nil
}

// others are the names that it holds beside names.
func (i index) others(names map[string]Label) []string {
	if i.dir == "" {
		return nil
	}
	entries, err := os.ReadDir(i.dir)
	if err != nil {
		return nil // it is only logged; set reads it again
	}
	var out []string
	for _, e := range entries {
		if _, ok := names[e.Name()]; !ok {
			out = append(out, e.Name())
		}
	}
	return out
}

// set makes the index hold exactly names.
func (i index) set(names map[string]Label) error {
	if i.dir == "" {
		return nil
	}
	if err := os.MkdirAll(i.dir, 0o700); err != nil {
		return errors.Wrap(err, "cannot make the index of a pool")
	}
	entries, err := os.ReadDir(i.dir)
	if err != nil {
		return errors.Wrap(err, "cannot read the index of a pool")
	}
	for _, e := range entries {
		if _, ok := names[e.Name()]; !ok {
			if err := i.remove(e.Name()); err != nil {
				return err
			}
		}
	}
	for name := range names {
		if err := i.add(name); err != nil {
			return err
		}
	}
	return nil
}
