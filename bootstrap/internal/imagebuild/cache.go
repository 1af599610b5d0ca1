package imagebuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/filelock"
)

// Temporary begins the names of folders in the cache and beside the image that a build makes for itself. They are
// removed when it ends; the next build removes those of one that was killed.
const Temporary = ".new-"

// CacheFolder is where builds of an image of that name keep what they can use again, by default: below the user's cache folder, if it has one.
func CacheFolder(name string) string {
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, name)
	}
	return "/var/cache/" + name
}

// Folders of the cache.
const (
	packagesFolder = "packages"
	squashfsFolder = "squashfs"
)

// LockCache waits until no other build uses the cache, and removes what killed ones left in it.
func LockCache(ctx context.Context, dir string, p *Progress) (*filelock.Lock, error) {
	lock, err := filelock.Try(filepath.Join(dir, "lock"))
	if filelock.Held(err) != nil {
		p.Say("waiting for another build with the cache %s", dir)
		lock, err = filelock.Wait(ctx, filepath.Join(dir, "lock"))
	}
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{dir, filepath.Join(dir, packagesFolder), filepath.Join(dir, squashfsFolder)} {
		if err := RemoveTemporary(dir); err != nil {
			return nil, errors.Join(err, lock.Release())
		}
	}
	return lock, nil
}

// KeepPackages removes packages from the cache that an image isn't made of.
func KeepPackages(cache string, packages []Package) error {
	var names []string
	for _, p := range packages {
		names = append(names, filepath.Base(p.Dir))
	}
	return keepOnly(filepath.Join(cache, packagesFolder), names...)
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

// RemoveTemporary removes what killed builds left in a folder, which needn't exist.
func RemoveTemporary(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), Temporary) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
