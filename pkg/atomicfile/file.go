package atomicfile

import (
	stderrors "errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
)

// WriteFile replaces path's content with data, with the given mode, whole and durable
// on return. For one file in a folder that others use too; see Folder for many.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	folder, name := filepath.Split(path)
	if folder == "" {
		folder = "."
	}
	temp, err := os.CreateTemp(folder, tempPrefix+name+"-*")
	if err != nil {
		return errors.Wrapf(err, "cannot write %s", path)
	}
	if err := fill(temp, data, mode); err != nil {
		return errors.Wrapf(both(err, os.Remove(temp.Name())), "cannot write %s", path)
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return errors.Wrapf(both(err, os.Remove(temp.Name())), "cannot write %s", path)
	}
	return syncFolder(folder, nil)
}

func fill(temp *os.File, data []byte, mode fs.FileMode) error {
	_, err := temp.Write(data)
	if err == nil {
		err = temp.Chmod(mode)
	}
	if err == nil {
		err = temp.Sync()
	}
	return both(err, temp.Close())
}

func syncFolder(path string, hook Hook) error {
	dir, err := os.Open(path)
	if err != nil {
		return errors.Wrapf(err, "cannot sync folder %s", path)
	}
	err = hook.around(SyncDir, path, dir.Sync)
	return errors.Wrapf(both(err, dir.Close()), "cannot sync folder %s", path)
}

// both keeps the first error's text when there is only one.
func both(first, second error) error {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return stderrors.Join(first, second)
}
