package volume

import (
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/node"
)

// Temporary names begin with a dot, which no valid name does.
const (
	newPrefix  = ".new-"
	gonePrefix = ".gone-"
)

// Pool says where the things of a pool lie.
type Pool struct {
	Name string
	// Path is where it is mounted, Index the folder beside it of its index.
	Path, Index string
	// Step is called before each durable step; an error ends the change there.
	Step func(step string) error
}

// shelf is the folder of a pool with all things of one kind.
type shelf struct {
	// what names the things in messages, attribute their labels' attribute.
	what, attribute string
	// optional is whether a pool may be without the folder.
	optional  bool
	pool, dir string
	index     index
	labels    *labels
	step      func(step string) error
}

func newShelf(p Pool, what, folder, attribute string) shelf {
	return shelf{
		what: what, attribute: attribute, pool: p.Name, dir: filepath.Join(p.Path, folder), step: p.Step,
		index:  index{dir: filepath.Join(p.Index, folder), what: what},
		labels: &labels{read: map[string]Label{}},
	}
}

// Folder is where they lie.
func (s shelf) Folder() string { return s.dir }

// Place is the path of the thing of that name.
func (s shelf) Place(name string) string { return filepath.Join(s.dir, name) }

// Labels returns the labels of all by name.
func (s shelf) Labels() (map[string]Label, error) {
	entries, err := s.entries()
	if err != nil {
		return nil, err
	}
	s.labels.keep(len(entries))
	all, buffer := make(map[string]Label, len(entries)), make([]byte, labelBuffer)
	for _, e := range entries {
		l, found, err := s.labels.get(s.Place(e.Name()), s.attribute, e.Name(), buffer)
		if err != nil {
			return nil, err
		}
		if found {
			all[e.Name()] = l
		}
	}
	return all, nil
}

func (s shelf) entries() ([]os.DirEntry, error) {
	entries, err := os.ReadDir(s.dir)
	if s.optional && errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return entries, btrfs.Wrap(err, "cannot list the %ss of pool %s", s.what, s.pool)
}

// Label returns the label of the thing of that name, if it is there.
func (s shelf) Label(name string) (l Label, found bool, err error) {
	return s.labels.get(s.Place(name), s.attribute, name, make([]byte, labelBuffer))
}

// Indexed reports whether the thing of that name may be there, also when the pool
// can't be read.
func (s shelf) Indexed(name string) bool { return s.index.has(name) }

// temporaries are the names of half made and half removed things.
func (s shelf) temporaries() (names []string, err error) {
	entries, err := s.entries()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if isTemporary(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// has reports whether something has that name.
func (s shelf) has(name string) bool {
	_, err := os.Lstat(s.Place(name))
	return !errors.Is(err, os.ErrNotExist)
}

// rename gives a thing its name, which nothing else may have.
func rename(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	return btrfs.Wrap(err, "cannot rename %s to %s", from, to)
}

// withUndo keeps err and its kind, and says that the undoing failed too.
func withUndo(err, undo error) error {
	if undo == nil {
		return err
	}
	return node.Errorf(node.KindOf(err), "%w; and cannot undo it: %v", err, undo)
}
