package ownimage

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

// nameForm is the form of an image's name: in the folder's name a dash follows it.
var nameForm = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)

// newPrefix begins the name of a folder that isn't finished.
const newPrefix = ".new-"

// Make makes the image of that name, whose entry point is the program at a
// path, in a folder of dir, and returns the folder's path. An image that
// exists stays as it is. Several processes may call it at the same time.
//
// Invalid when name isn't 1 to 32 small letters and digits, or the program isn't
// a static one for this machine. NotExist when there is no program.
func Make(dir, name, program string) (string, error) {
	if !nameForm.MatchString(name) || !filepath.IsAbs(dir) {
		return "", node.Errorf(node.Invalid, "cannot make image %q in %q: must be a name of 1 to 32 small letters and digits, and an absolute path", name, dir)
	}
	f, err := open(name, program)
	if err != nil {
		return "", err
	}
	defer f.Close()
	parts, err := describe(name, f)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", errors.Wrapf(err, "cannot make the folder of image %s", name)
	}
	lock, err := filelock.WaitFolder(context.Background(), dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Release() }()
	path := filepath.Join(dir, name+"-"+parts.manifest.Digest.Encoded()[:16])
	if !parts.existIn(path) {
		if err := parts.write(dir, name, path); err != nil {
			return "", err
		}
	}
	return path, removeOthers(dir, name, path)
}

// removeOthers removes the folders of the image that were made of other
// programs, or weren't finished.
func removeOthers(dir, name, but string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return errors.Wrapf(err, "cannot look for older images in %s", dir)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if path == but || !strings.HasPrefix(strings.TrimPrefix(e.Name(), newPrefix), name+"-") {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return errors.Wrapf(err, "cannot remove an older image %s", name)
		}
	}
	return nil
}
