package folders

import (
	"os"
	"sync"

	"github.com/rs/zerolog"
)

// Remover removes unused folders, one after the other and beside the loop's thread.
// Folders that are left when it is closed are removed after the next start.
type Remover struct {
	log zerolog.Logger

	mu     sync.Mutex
	todo   []string
	busy   bool
	closed bool
	done   sync.WaitGroup
}

// NewRemover makes a remover.
func NewRemover(log zerolog.Logger) *Remover { return &Remover{log: log} }

// Add queues folders.
func (r *Remover) Add(paths ...string) {
	if len(paths) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.todo = append(r.todo, paths...)
	if !r.busy && !r.closed {
		r.busy = true
		r.done.Go(r.work)
	}
}

func (r *Remover) work() {
	for {
		path, ok := r.next()
		if !ok {
			return
		}
		if err := os.RemoveAll(path); err != nil {
			r.log.Error().Err(err).Str("folder", path).Msg("cannot remove a folder that isn't needed")
		}
	}
}

func (r *Remover) next() (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.todo) == 0 || r.closed {
		r.busy = false
		return "", false
	}
	path := r.todo[0]
	r.todo = r.todo[1:]
	return path, true
}

// Close waits for the folder that is being removed, and leaves the others.
func (r *Remover) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.done.Wait()
}
