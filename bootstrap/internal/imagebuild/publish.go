package imagebuild

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/croft-edge/croft/pkg/fileid"
)

// Publish moves an image, whose manifest is a file of that name, from the folder staged, which is on the same file system, into the folder out. A node that
// reads there sees the whole old image, none (which it takes for one that comes), or the whole new one: the manifest
// goes first and comes last. Files that haven't changed stay as they are, and so does an image that hasn't.
func Publish(staged, out, manifest string) error {
	entries, err := os.ReadDir(staged)
	if err != nil {
		return err
	}
	isManifest := func(name string) bool { return name == manifest }
	var changed []string
	for _, e := range entries {
		same, err := sameContent(filepath.Join(staged, e.Name()), filepath.Join(out, e.Name()))
		if err != nil {
			return err
		}
		if !same {
			changed = append(changed, e.Name())
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if err := os.Remove(filepath.Join(out, manifest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := syncFolder(out); err != nil {
		return err
	}
	for _, name := range append(slices.DeleteFunc(changed, isManifest), manifest) {
		if isManifest(name) { // what it describes is there before it is
			if err := syncFolder(out); err != nil {
				return err
			}
		}
		if err := os.Rename(filepath.Join(staged, name), filepath.Join(out, name)); err != nil {
			return err
		}
	}
	return syncFolder(out)
}

// sameContent tells whether two files have the same content; what is no file has none.
func sameContent(a, b string) (bool, error) {
	info, err := os.Lstat(b)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	sumA, err := fileid.Sum(a)
	if err != nil {
		return false, err
	}
	sumB, err := fileid.Sum(b)
	return sumA == sumB, err
}

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// Stage copies a file into the folder of an image that is being made. It is on the disk when stage returns.
func Stage(folder, name, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return StageFrom(folder, name, in)
}

// StageFrom is Stage of what a reader has.
func StageFrom(folder, name string, in io.Reader) error {
	out, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	// All users must be able to read an image.
	if err := out.Chmod(0o644); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	return out.Close()
}
