package rootfs

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
)

// Config configures a Store.
type Config struct {
	// RunDir is the node's run folder: the Store owns "container" in it. All
	// folders down to it must let everybody walk through (mode 0711): the
	// container's root, which is nobody on the node, walks them.
	RunDir string
	// StateDir is the folder of ranges.json.
	StateDir string
	Log      zerolog.Logger
}

// Store makes and removes containers' root file systems and namespaces. It may
// be used from several goroutines.
type Store struct {
	log     zerolog.Logger
	folders folders
	ranges  *ranges
	spaces  *spaces
	records records
	locks   locks

	// reached is called at each step of Make and Remove: tests end the process there.
	reached func(step string)
}

// Open opens the store: it makes RUN/container a private mount and reads the
// ranges. Refused when their file is damaged, or when a folder above doesn't
// let everybody walk through.
func Open(c Config) (*Store, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if err := atomicfile.MakeFolder(c.StateDir, nil); err != nil {
		return nil, err
	}
	ranges, err := openRanges(c.StateDir)
	if err != nil {
		return nil, err
	}
	folders, err := openFolders(c.RunDir)
	if err != nil {
		return nil, err
	}
	if err := folders.isolate(); err != nil {
		return nil, err
	}
	ranges.users = folders.users
	s := newStore(c.Log, folders)
	s.ranges = ranges
	return s, s.letAllGo()
}

// newStore is a store without ranges.
func newStore(log zerolog.Logger, f folders) *Store {
	return &Store{log: log, folders: f, spaces: &spaces{folders: f, open: map[string]space{}}, reached: func(string) {}}
}

func (c Config) validate() error {
	if !filepath.IsAbs(c.RunDir) || !filepath.IsAbs(c.StateDir) {
		return node.Errorf(node.Invalid, "cannot keep containers in %q and %q: both folders must be absolute paths", c.RunDir, c.StateDir)
	}
	return nil
}

// letAllGo lets go of the mounts of an earlier process: its links may lead to anything by now.
func (s *Store) letAllGo() error {
	ids, err := s.List()
	for _, id := range ids {
		if err := s.LetGo(id); err != nil {
			s.log.Error().Str("id", id).Str("type", "container").Str("step", "load").Err(err).Msg("cannot let go of the root that an earlier croft mounted")
		}
	}
	return err
}

// List returns the IDs of all containers that have a folder here.
func (s *Store) List() ([]string, error) { return s.folders.list() }

// GiveBack frees the ranges of users without layers, and returns how many users
// those are. A layer is gone when its file system is mounted where it was, and
// the layer isn't there: layers of a disk that isn't mounted, or was lost, count
// as present. A range stays, too, while a container of its user exists, or a
// process has one of its IDs. Volumes hold none: on disk they have the container's
// own IDs.
func (s *Store) GiveBack(context.Context) (int, error) { return s.ranges.giveBack() }

// Close lets go of all mount namespaces, and none is kept from then on.
func (s *Store) Close() { s.spaces.close() }

// locks are one for each container. The zero value is ready to be used.
type locks struct {
	mu   sync.Mutex
	byID map[string]*containerLock
}

// containerLock is the right to work on a container.
type containerLock struct {
	sync.Mutex
	// users hold it or wait for it.
	users int
}

// lock waits until nobody else works on a container.
func (l *locks) lock(id string) (unlock func()) {
	l.mu.Lock()
	if l.byID == nil {
		l.byID = map[string]*containerLock{}
	}
	one, ok := l.byID[id]
	if !ok {
		one = &containerLock{}
		l.byID[id] = one
	}
	one.users++
	l.mu.Unlock()
	one.Lock()
	return func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.byID, id)
		}
	}
}
