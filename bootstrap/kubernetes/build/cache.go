package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// temporary begins the names of folders in the cache and beside the image that a build makes for itself. They are
// removed when it ends; the next build removes those of one that was killed.
const temporary = ".new-"

// cacheFolder is where builds keep what they can use again, by default: below the user's cache folder, if it has one.
func cacheFolder() string {
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "croft-kubernetes")
	}
	return "/var/cache/croft-kubernetes"
}

// rename gives a file or a folder that was just made its name in the cache. All of it is on the disk before: later builds trust
// the name.
func rename(from, to string) error {
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("cannot sync %s: %w", filepath.Dir(to), err)
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return dir.Sync()
}

// keepOnly removes all else from a folder.
func keepOnly(dir string, names ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(names, e.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// removeTemporary removes what killed builds left in a folder, which needn't exist.
func removeTemporary(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), temporary) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
