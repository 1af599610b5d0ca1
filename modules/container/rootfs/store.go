package rootfs

import (
	"context"
	"sync"

	"github.com/rs/zerolog"
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

// Store makes and removes what containers stand on.
type Store struct {
	cfg Config
	dir string

	mu    sync.Mutex
	locks map[string]*sync.Mutex

	ranges ranges
	// reached is told of each step of Make and Remove. Tests end the process there.
	reached func(step string)
}

// Open opens the store: it makes RUN/container a private mount and reads the ranges.
func Open(c Config) (*Store, error) {
	return &Store{cfg: c, locks: map[string]*sync.Mutex{}}, nil
}

// Made is what a container stands on.
type Made struct {
	// Root is the path of its root file system, UserNS and NetNS the files that
	// keep its namespaces.
	Root   string
	UserNS string
	NetNS  string
	Range  Range
}

// Make makes what a container stands on. What stands as asked is adopted, what
// lacks is made. Busy when it must be made anew while processes of it run.
func (s *Store) Make(ctx context.Context, spec Spec) (Made, error) { return Made{}, nil }

// HandOver unmounts the root file system from the node. It is for a container
// that was created and not started yet: it has its own copy of all mounts by
// then. A mount that stays visible on the node could be moved by its container,
// by renaming a folder above it, to a path so long that nothing on the node can
// read the list of mounts any more. Make mounts it again once the container's
// processes are gone.
func (s *Store) HandOver(ctx context.Context, id string) error { return nil }

// Check says what of a container isn't as it was made, empty when all is.
// NotExist when there is none.
func (s *Store) Check(id string) (drift string, err error) { return "", nil }

// CheckAll is Check of all, with one look at the mounts. Those that are as they
// were made have an empty text.
func (s *Store) CheckAll() (map[string]string, error) { return nil, nil }

// Remove unmounts and removes all of a container but its layer and volumes.
// That nothing is there is no error.
func (s *Store) Remove(ctx context.Context, id string) error { return nil }

// List returns the IDs of all containers of which something is here.
func (s *Store) List() ([]string, error) { return nil, nil }

// Supported says why this kernel can't id-map mounts of the file system at dir,
// and what is needed.
func Supported(dir string) error { return nil }
