package store

import (
	"sync"

	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/store/persist"
)

// FSStore keeps records in a folder: one file a reservation, named by its ID,
// and in folders beside them what the node knows of itself. It is the engine's
// Records, and the seed's cache of reservations. All methods may be called
// from several goroutines; readers never wait for the disk.
type FSStore struct {
	cfg  Config
	disk persist.Provider
	lock *filelock.Lock

	// writing is held over a change, from its check to its place in the
	// memory.
	writing sync.Mutex
	memory
}

// memory is what a store has read and written. All that only reads is answered
// from it.
type memory struct {
	// mu guards what is below, never over the disk, and is never taken twice: the
	// writer that waits between two read locks is how a store hangs.
	mu    sync.RWMutex
	index *index
	meta  meta
	// networks is what is remembered of networks whose records are buried.
	networks map[NetworkKey]remembered
	damaged  []Quarantine
}

// Quarantine is a file that couldn't be read, and was set aside.
type Quarantine struct {
	// Name is where it lies now, relative to the store's folder.
	Name string
	// ID is the reservation's that it was of; empty when it was no record.
	ID string
	// Cause is what was wrong with it.
	Cause string
}

// Open opens the store in c.Root, and makes it when there is none. Busy when
// another process has it open. A damaged file is set aside, not an error; a file
// of a newer croft is one, and so is one that can't be read, because a store must
// not be opened half: Refused and Transient, and nothing in the folder is changed.
func Open(c Config) (*FSStore, error) {
	if c.Disk != nil {
		return openWith(c, nil, func() (persist.Provider, error) { return c.Disk, nil })
	}
	return openOn(c, func() (persist.Provider, error) { return persist.OpenFS(c.Root, c.Hook) })
}

// openOn opens the store that lies with a provider, and whose lock is in a folder.
func openOn(c Config, provider func() (persist.Provider, error)) (*FSStore, error) {
	if err := c.Validate(); err != nil {
		return nil, node.WithKind(node.Invalid, err)
	}
	held, err := lockFolder(c.Root, c.Hook)
	if err != nil {
		return nil, err
	}
	return openWith(c, held, provider)
}

// openWith opens the store that lies with a provider; held is nil for one that
// nobody else can reach.
func openWith(c Config, held *filelock.Lock, provider func() (persist.Provider, error)) (*FSStore, error) {
	if c.Clock == nil {
		c.Clock = wallClock{}
	}
	disk, err := provider()
	if err != nil {
		return nil, both(err, release(held))
	}
	s := &FSStore{cfg: c, disk: disk, lock: held, memory: memory{index: newIndex(c.Demand), networks: map[NetworkKey]remembered{}}}
	if err := s.load(); err != nil {
		return nil, both(err, s.Close())
	}
	return s, nil
}

// NewFSStore opens the store in root as the published API does: without a log,
// by the machine's clock, and, when it is new, accepting reservations that are
// older than it. A node of croft's uses Open.
func NewFSStore(root string) (*FSStore, error) {
	return Open(Config{Root: root, NewNode: true})
}

// Close lets another process open the store. The store can't be used after it.
func (s *FSStore) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return both(s.disk.Close(), release(s.lock))
}

// Quarantined returns what was set aside, now or before, by name.
func (s *memory) Quarantined() []Quarantine {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append([]Quarantine(nil), s.damaged...)
}

// both is the first error, with the second when there are two.
func both(first, second error) error {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return node.Errorf(node.KindOf(first), "%w (and: %v)", first, second)
}
