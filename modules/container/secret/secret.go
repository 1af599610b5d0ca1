package secret

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// Memory is the limit of opened secrets.
var Memory = limit.Limit{Name: "secret-bytes", Per: "user", Each: 8 << 20, Total: 64 << 20, Unit: limit.Bytes} //nolint:gochecknoglobals // a limit of the table

// Store keeps the opened secrets of containers. It may be used from several goroutines.
type Store struct {
	dir string
	// mu is held while the sizes are summed and a file is written.
	mu sync.Mutex
}

// folder is the store's folder in the node's run folder.
func folder(runDir string) string { return filepath.Join(runDir, "secret") }

// Open opens the store of a run folder: it mounts its tmpfs, unless that is there.
func Open(runDir string) (*Store, error) {
	s := &Store{dir: folder(runDir)}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, errors.Wrap(err, "cannot make the folder of secrets")
	}
	if mounted, err := s.mounted(); err != nil || mounted {
		return s, err
	}
	const flags = unix.MS_NODEV | unix.MS_NOSUID | unix.MS_NOEXEC
	// The folders need room beside the files, whose sizes fits counts.
	const size = "mode=700,size=80m,nr_inodes=128k"
	err := unix.Mount("croft-secret", s.dir, "tmpfs", flags, size+",noswap")
	if errors.Is(err, unix.EINVAL) { // Linux before 6.4
		err = unix.Mount("croft-secret", s.dir, "tmpfs", flags, size)
	}
	if err != nil {
		return nil, errors.Wrap(err, "cannot mount the memory for secrets")
	}
	return s, errors.Wrap(unix.Mount("", s.dir, "", unix.MS_PRIVATE, ""), "cannot make the mount of secrets private")
}

// mounted reports whether the store's tmpfs is mounted. Refused when another file system is.
func (s *Store) mounted() (bool, error) {
	var here, above unix.Stat_t
	var fs unix.Statfs_t
	for _, err := range []error{unix.Stat(s.dir, &here), unix.Stat(filepath.Dir(s.dir), &above), unix.Statfs(s.dir, &fs)} {
		if err != nil {
			return false, errors.Wrap(err, "cannot look at the folder of secrets")
		}
	}
	if here.Dev == above.Dev {
		return false, nil
	}
	if fs.Type != unix.TMPFS_MAGIC {
		return false, node.Errorf(node.Refused, "cannot keep secrets in %s: something else than a tmpfs is mounted there", s.dir)
	}
	return true, nil
}

// Path is the file of a container's variables; it exists if there are any.
func (s *Store) Path(user, id string) string { return filepath.Join(s.dir, user, id) }

// Put replaces a container's variables. A file with the same contents stays as it is. NoSpace when those
// of the user, or of all users, take too much.
func (s *Store) Put(user, id string, env map[string]string) error {
	if err := plain(user, id); err != nil {
		return err
	}
	raw := encode(env)
	s.mu.Lock()
	defer s.mu.Unlock()
	path := s.Path(user, id)
	if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, raw) {
		return nil
	}
	if err := s.fits(user, id, int64(len(raw))); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return errors.Wrap(err, "cannot keep a container's secrets")
	}
	if err := os.WriteFile(path+".new", raw, 0o400); err != nil {
		_ = os.Remove(path + ".new")
		return errors.Wrap(err, "cannot keep a container's secrets")
	}
	return errors.Wrap(os.Rename(path+".new", path), "cannot keep a container's secrets")
}

// plain is Invalid for a name that isn't a plain file name.
func plain(names ...string) error {
	for _, name := range names {
		if name == "" || name[0] == '.' || strings.ContainsAny(name, "/\x00") || strings.HasSuffix(name, ".new") {
			return node.Errorf(node.Invalid, "cannot keep the secrets of %.80q: it must be an ID", name)
		}
	}
	return nil
}

func encode(env map[string]string) []byte {
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(append(append(append(out, name...), '='), env[name]...), 0)
	}
	return out
}

// fits is NoSpace when a container's file may not have that many bytes. mu is held.
func (s *Store) fits(user, id string, size int64) error {
	each, total := size, size
	err := s.walk(func(u, i string, has int64) {
		if u == user && i == id {
			return
		}
		if total += has; u == user {
			each += has
		}
	})
	if err != nil {
		return err
	}
	if each > Memory.Each || total > Memory.Total {
		Memory.Reached()
		return node.Errorf(node.NoSpace, "cannot keep the secrets of container %s: they have %d bytes, those of one user may have %d and all together %d", id, size, Memory.Each, Memory.Total)
	}
	return nil
}

// walk calls f with each file.
func (s *Store) walk(f func(user, id string, size int64)) error {
	users, err := os.ReadDir(s.dir)
	if err != nil {
		return errors.Wrap(err, "cannot list secrets")
	}
	for _, user := range users {
		files, err := os.ReadDir(filepath.Join(s.dir, user.Name()))
		if err != nil {
			return errors.Wrap(err, "cannot list secrets")
		}
		for _, file := range files {
			if info, err := file.Info(); err == nil {
				f(user.Name(), file.Name(), info.Size())
			}
		}
	}
	return nil
}

// Own makes the IDs that the container's program has on the node the owners of its file. A missing file
// is no error.
func (s *Store) Own(user, id string, uid, gid uint32) error {
	err := os.Chown(s.Path(user, id), int(uid), int(gid))
	if os.IsNotExist(err) {
		return nil
	}
	return errors.Wrap(err, "cannot give a container its secrets")
}

// Remove removes a container's variables, of any user. None is no error.
func (s *Store) Remove(id string) error {
	if err := plain(id); err != nil {
		return nil //nolint:nilerr // nothing is kept under such a name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed error
	err := s.walk(func(user, file string, _ int64) {
		if strings.TrimSuffix(file, ".new") != id {
			return
		}
		if err := os.Remove(s.Path(user, file)); err != nil && !os.IsNotExist(err) {
			failed = errors.Wrap(err, "cannot remove a container's secrets")
		}
		_ = os.Remove(filepath.Join(s.dir, user)) // another container's may be in it
	})
	if err == nil {
		err = failed
	}
	return err
}

// List returns the containers that have variables.
func (s *Store) List() ([]string, error) {
	out := []string{}
	err := s.walk(func(_, id string, _ int64) { out = append(out, strings.TrimSuffix(id, ".new")) })
	slices.Sort(out)
	return slices.Compact(out), err
}

// TakeDown removes all secrets of a run folder.
func TakeDown(runDir string) error {
	dir := folder(runDir)
	for {
		err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
				return errors.Wrap(err, "cannot remove the folder of secrets")
			}
			return nil
		case err != nil:
			return errors.Wrap(err, "cannot unmount the memory for secrets")
		}
	}
}
