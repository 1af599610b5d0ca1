package rootfs

import (
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

// Config is what a Store needs.
type Config struct {
	// RunDir is the node's run folder: the Store owns "container" in it. All
	// folders down to it must let everybody walk through (mode 0711): the
	// container's root, which is nobody on the node, walks them.
	RunDir string
	// StateDir is the folder of ranges.json.
	StateDir string
	Log      zerolog.Logger
}

// Store makes and removes what containers stand on. It may be used from
// several goroutines.
type Store struct {
	cfg Config
	dir string

	mu     sync.Mutex // of what follows
	ranges map[string]share
	// spaces are the mount namespaces of containers that are being created.
	spaces map[string]space
	turns  map[string]*turn
	// working counts by user what is being made on their ranges.
	working map[string]int

	// reached is told of each step of Make and Remove: tests end the process there.
	reached func(step string)
}

// folderMode lets the container's root walk through, and nobody look around.
const folderMode = 0o711

// Open opens the store: it makes RUN/container a private mount and reads the
// ranges. Refused when their file is damaged, or when a folder above doesn't
// let everybody walk through.
func Open(c Config) (*Store, error) {
	s, err := at(c)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.MakeFolder(c.StateDir, nil); err != nil {
		return nil, err
	}
	err = s.withRanges(func() (err error) {
		s.ranges, err = readRanges(s.rangesPath())
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.dir, folderMode); err != nil {
		return nil, errors.Wrap(err, "cannot make the folder of containers")
	}
	if err := os.Chmod(s.dir, folderMode); err != nil {
		return nil, errors.Wrap(err, "cannot make the folder of containers")
	}
	if s.dir, err = filepath.EvalSymlinks(s.dir); err != nil {
		return nil, errors.Wrap(err, "cannot find the folder of containers")
	}
	if err := walkable(s.dir); err != nil {
		return nil, err
	}
	if err := s.isolate(); err != nil {
		return nil, err
	}
	return s, s.letAllGo()
}

// letAllGo lets go of what an earlier process had open: its links may lead to anything by now.
func (s *Store) letAllGo() error {
	ids, err := s.List()
	for _, id := range ids {
		if err := s.LetGo(id); err != nil {
			s.cfg.Log.Error().Err(err).Str("id", id).Str("type", "container").Msg("what an earlier croft has mounted of a container can't be let go")
		}
	}
	return err
}

// at is a store that nothing was made or asked for yet.
func at(c Config) (*Store, error) {
	if !filepath.IsAbs(c.RunDir) || !filepath.IsAbs(c.StateDir) {
		return nil, node.Errorf(node.Invalid, "cannot keep containers in %q and %q: both folders must be absolute paths", c.RunDir, c.StateDir)
	}
	return &Store{cfg: c, dir: filepath.Join(c.RunDir, "container"), spaces: map[string]space{}, turns: map[string]*turn{}, working: map[string]int{}, reached: func(string) {}}, nil
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

// isolate makes the store's folder a mount that shares nothing with others.
func (s *Store) isolate() error {
	dir, err := os.Open(s.dir)
	if err != nil {
		return errors.Wrap(err, "cannot open the folder of containers")
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return errors.Wrap(err, "cannot lock the folder of containers")
	}
	mounted, err := mounts.Read()
	if err != nil {
		return err
	}
	if _, there := mounted.At(s.dir); !there {
		if err := unix.Mount(s.dir, s.dir, "", unix.MS_BIND, ""); err != nil {
			return errors.Wrapf(err, "cannot mount %s on itself", s.dir)
		}
	}
	return errors.Wrapf(unix.Mount("", s.dir, "", unix.MS_PRIVATE, ""), "cannot make the mount of %s private", s.dir)
}

// turn is the right to work on a container.
type turn struct {
	sync.Mutex
	// users hold it or wait for it.
	users int
}

// lock waits until nobody else works on a container.
func (s *Store) lock(id string) (unlock func()) {
	s.mu.Lock()
	l, ok := s.turns[id]
	if !ok {
		l = &turn{}
		s.turns[id] = l
	}
	l.users++
	s.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(s.turns, id)
		}
	}
}

// List returns the IDs of all containers of which something is here.
func (s *Store) List() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
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
