package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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
