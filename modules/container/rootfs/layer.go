package rootfs

import (
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

// The names in a container's layer. An entry with a prefix isn't finished,
// or is being removed.
const (
	upperName  = "upper"
	workName   = "work"
	newPrefix  = ".new-"
	gonePrefix = ".gone-"
)

// identity tells files apart.
type identity struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

func identify(path string) (identity, error) {
	var st syscall.Stat_t
	err := syscall.Lstat(path, &st)
	return identity{Device: st.Dev, Inode: st.Ino}, err
}

// prepareLayer makes the overlay's folders, or adopts those that are there.
// like is the folder whose mode the root gets.
func prepareLayer(log zerolog.Logger, spec Spec, r Range, like string) (identity, error) {
	info, err := os.Lstat(spec.Layer)
	if err != nil || !info.IsDir() {
		return identity{}, node.Errorf(node.NotExist, "cannot make container %s: its layer %s isn't a folder", spec.ID, spec.Layer)
	}
	// Its files are owned by the user's range: nobody else may walk in.
	if err := os.Chmod(spec.Layer, 0o700); err != nil {
		return identity{}, failed("prepare", spec.Layer, err)
	}
	layer, err := os.OpenRoot(spec.Layer)
	if err != nil {
		return identity{}, failed("prepare", spec.Layer, err)
	}
	defer layer.Close()
	if err := prepareUpper(log, layer, spec, r, like); err != nil {
		return identity{}, failed("prepare", spec.Layer, err)
	}
	if err := layer.Mkdir(workName, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return identity{}, failed("prepare", spec.Layer, err)
	}
	if err := clearLeft(layer); err != nil {
		return identity{}, failed("clear", spec.Layer, err)
	}
	id, err := identify(filepath.Join(spec.Layer, upperName))
	return id, failed("prepare", spec.Layer, err)
}

func prepareUpper(log zerolog.Logger, layer *os.Root, spec Spec, r Range, like string) error {
	owner, found, err := ownerOf(layer, upperName)
	if err != nil {
		return err
	}
	if found && r.has(owner) {
		return nil
	}
	if found {
		log.Warn().Str("id", spec.ID).Str("user", spec.User).Str("layer", spec.Layer).Uint32("owner", owner).Uint32("base", r.Base).
			Msg("what the container wrote beside its volumes is of another range of IDs: it is removed, and the container starts without it")
		for _, name := range []string{upperName, workName} {
			err := layer.Rename(name, gonePrefix+name+"-"+rand.Text())
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return makeUpper(layer, r, like)
}

// ownerOf is the owner of a folder; 0, which no range has, for anything else.
func ownerOf(layer *os.Root, name string) (owner uint32, found bool, err error) {
	info, err := layer.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && info.IsDir() {
		return st.Uid, true, nil
	}
	return 0, true, nil
}

// makeUpper makes the upper folder, which has its owner from the first moment.
func makeUpper(layer *os.Root, r Range, like string) error {
	mode := fs.FileMode(0o755)
	if info, err := os.Stat(like); err == nil {
		mode = info.Mode().Perm()
	}
	name := newPrefix + rand.Text()
	if err := layer.Mkdir(name, 0o700); err != nil {
		return err
	}
	if err := layer.Chown(name, int(r.Base), int(r.Base)); err != nil {
		return err
	}
	if err := layer.Chmod(name, mode); err != nil {
		return err
	}
	return layer.Rename(name, upperName)
}

// clearLeft removes unfinished and half removed entries.
func clearLeft(layer *os.Root) error {
	dir, err := layer.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, newPrefix) || strings.HasPrefix(name, gonePrefix) {
			if err := layer.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	return nil
}
