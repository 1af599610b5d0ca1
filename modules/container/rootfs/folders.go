package rootfs

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// folderMode lets the container's root walk through, and nobody look around.
const folderMode = 0o711

// folders is the path of RUN/container, with a folder for each container.
type folders string

// openFolders makes RUN/container, and checks that everybody may walk through.
func openFolders(runDir string) (folders, error) {
	dir := filepath.Join(runDir, "container")
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return "", errors.Wrap(err, "cannot make the folder of containers")
	}
	if err := os.Chmod(dir, folderMode); err != nil {
		return "", errors.Wrap(err, "cannot make the folder of containers")
	}
	f, err := findFolders(runDir)
	if err != nil {
		return "", errors.Wrap(err, "cannot find the folder of containers")
	}
	return f, walkable(string(f))
}

// findFolders is RUN/container without links.
func findFolders(runDir string) (folders, error) {
	dir, err := filepath.EvalSymlinks(filepath.Join(runDir, "container"))
	return folders(dir), err
}

// of is a container's folder.
func (f folders) of(id string) string { return filepath.Join(string(f), id) }

// list returns the IDs of all containers that have a folder, sorted.
func (f folders) list() ([]string, error) {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return nil, errors.Wrap(err, "cannot list containers")
	}
	ids := []string{}
	for _, e := range entries {
		if e.IsDir() && validID(e.Name()) == nil {
			ids = append(ids, e.Name())
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// users are those of all containers that have a folder. known is false while the user
// of one can't be told.
func (f folders) users() (users []string, known bool, err error) {
	ids, err := f.list()
	if err != nil {
		return nil, false, err
	}
	for _, id := range ids {
		r, err := readRecord(f.of(id))
		if err != nil || r == nil {
			return nil, false, err
		}
		users = append(users, r.User)
	}
	return users, true, nil
}

// walkable refuses a folder that not everybody may walk down to.
func walkable(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return errors.Wrap(err, "cannot look at the folder of containers")
		}
		if mode := info.Mode().Perm(); mode&0o001 == 0 {
			return node.Errorf(node.Refused, "cannot keep containers in %s: folder %s has mode %04o, and a container's root, which is nobody on the node, "+
				"must walk through it (mode 0711)", dir, at, mode)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// isolate makes the folder a mount that shares nothing with others.
func (f folders) isolate() error {
	lock, err := filelock.WaitFolder(context.Background(), string(f))
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	mounted, err := mounts.Read()
	if err != nil {
		return err
	}
	if _, there := mounted.At(string(f)); !there {
		if err := unix.Mount(string(f), string(f), "", unix.MS_BIND, ""); err != nil {
			return errors.Wrapf(err, "cannot mount %s on itself", string(f))
		}
	}
	return errors.Wrapf(unix.Mount("", string(f), "", unix.MS_PRIVATE, ""), "cannot make the mount of %s private", string(f))
}

// ownForm is the form of the IDs of the node's own containers, such as
// "zdb-ssd0-user": no reservation's ID has it.
var ownForm = regexp.MustCompile(`^[a-z][a-z0-9]*(?:-[a-z0-9]+)+$`)

// longestOwn bounds them.
const longestOwn = 64

// validID accepts the canonical ID of a reservation, and one of the node's own: it
// becomes the name of a folder.
func validID(id string) error {
	if workload.IsID(id) || len(id) <= longestOwn && ownForm.MatchString(id) {
		return nil
	}
	return node.Errorf(node.Invalid, "cannot use ID %.64q for a container: it must be N-M, two decimal numbers, or small letters and digits with single - between them", id)
}
