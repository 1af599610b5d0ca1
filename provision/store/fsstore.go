package store

import (
	"sync"

	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store/durable"
)

// FSStore keeps records in a folder: one file per reservation, named by its ID, and the
// node's own state in folders beside them. It implements Records, and the seed's cache of
// reservations. All methods are safe for concurrent use; readers never wait for the disk.
type FSStore struct {
	cfg  Config
	disk durable.Provider
	lock *filelock.Lock

	// writing is held during a change, from its check to the update of memory.
	writing sync.Mutex
	// unsure are the records whose last write failed: the disk may have them as in memory
	// or as they were to be. Guarded by writing.
	unsure map[workload.ID]bool
	memory
}

// memory is the store's content in memory. It answers all reads.
type memory struct {
	// mu guards the fields below. It is never held over disk access, nor taken twice: a
	// writer that waits between two read locks would hang the store.
	mu    sync.RWMutex
	index *index
	meta  meta
	// networks holds the newest Created of networks whose records are buried.
	networks map[NetworkKey]remembered
	damaged  []Quarantine
}

// Quarantine is a damaged file that was set aside.
type Quarantine struct {
	// Name is its present path, relative to the store's folder.
	Name string
	// ID is its reservation's; empty when it was no record.
	ID string
	// Cause describes the damage.
	Cause string
}

// Open opens the store in c.Root, and creates it if missing. Busy when another process has
// it open. Damaged files are set aside. A newer croft's file is an error (Refused), and so
// is one that can't be read (Transient), because a store must not be opened in part; then
// nothing in the folder is changed.
func Open(c Config) (*FSStore, error) {
	if c.Disk != nil {
		return openWith(c, nil, func() (durable.Provider, error) { return c.Disk, nil })
	}
	return openOn(c, func() (durable.Provider, error) { return durable.OpenFS(c.Root, c.Hook) })
}

// openOn opens a store on a provider, with its lock in the folder Root.
func openOn(c Config, provider func() (durable.Provider, error)) (*FSStore, error) {
	if err := c.Validate(); err != nil {
		return nil, node.WithKind(node.Invalid, err)
	}
	held, err := lockFolder(c.Root, c.Hook)
	if err != nil {
		return nil, err
	}
	return openWith(c, held, provider)
}

// openWith opens a store on a provider; held is nil for one that no other process can reach.
func openWith(c Config, held *filelock.Lock, provider func() (durable.Provider, error)) (*FSStore, error) {
	if c.Clock == nil {
		c.Clock = wallClock{}
	}
	disk, err := provider()
	if err != nil {
		return nil, both(err, release(held))
	}
	s := &FSStore{cfg: c, disk: told(disk, c.OnBegin, c.OnChange), lock: held, unsure: map[workload.ID]bool{}, memory: memory{index: newIndex(c.Demand), networks: map[NetworkKey]remembered{}}}
	if err := s.load(); err != nil {
		return nil, both(err, s.Close())
	}
	return s, nil
}

// NewFSStore opens the store in root as the published API does: without a log, by the
// machine's clock, and, when it is new, accepting reservations older than itself. A croft
// node uses Open.
func NewFSStore(root string) (*FSStore, error) {
	return Open(Config{Root: root, NewNode: true})
}

// Close lets another process open the store. The store can't be used after it.
func (s *FSStore) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return both(s.disk.Close(), release(s.lock))
}

// Quarantined returns the files set aside, at this start or before.
func (s *memory) Quarantined() []Quarantine {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append([]Quarantine(nil), s.damaged...)
}

// both joins two errors, either of which may be nil.
func both(first, second error) error {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return node.Errorf(node.KindOf(first), "%w (and: %v)", first, second)
}
