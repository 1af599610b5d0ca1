package storage

import (
	stderrors "errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/storage/btrfs"
)

// index remembers, outside a pool, the names of what may lie on it: one empty
// file each. It is asked only when the pool can't be. A name is there before
// the thing is made and goes after it is gone, and Open sets it right.
type index struct {
	dir string
}

func (c Config) indexOf(pool string) index {
	return index{dir: filepath.Join(c.poolsDir(), pool+".index")}
}

func (i index) path(k kind, name string) string { return filepath.Join(i.dir, k.folder, name) }

func (i index) add(k kind, name string) error {
	f, err := os.OpenFile(i.path(k, name), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	return btrfs.Wrap(err, "cannot note %s %s", k.what, name)
}

func (i index) remove(k kind, name string) error {
	err := os.Remove(i.path(k, name))
	if stderrors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return btrfs.Wrap(err, "cannot forget %s %s", k.what, name)
}

func (i index) has(k kind, name string) bool {
	_, err := os.Lstat(i.path(k, name))
	return err == nil
}

// others are the names that it holds beside names.
func (i index) others(k kind, names map[string]label) []string {
	entries, err := os.ReadDir(filepath.Join(i.dir, k.folder))
	if err != nil {
		return nil // it is only to tell; set reads it again
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
func (i index) set(k kind, names map[string]label) error {
	dir := filepath.Join(i.dir, k.folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return errors.Wrap(err, "cannot make the index of a pool")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return errors.Wrap(err, "cannot read the index of a pool")
	}
	for _, e := range entries {
		if _, ok := names[e.Name()]; !ok {
			if err := i.remove(k, e.Name()); err != nil {
				return err
			}
		}
	}
	for name := range names {
		if err := i.add(k, name); err != nil {
			return err
		}
	}
	return nil
}
