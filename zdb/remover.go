package zdb

import (
	"os"
	"sync"

	"github.com/rs/zerolog"
)

// remover removes folders that nobody needs any more, one after the other and
// beside the loop. What it doesn't come to is removed after the next start.
type remover struct {
	log zerolog.Logger

	mu     sync.Mutex
	todo   []string
	busy   bool
	closed bool
	done   sync.WaitGroup
}

func (r *remover) add(paths ...string) {
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

func (r *remover) work() {
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

func (r *remover) next() (string, bool) {
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

// close waits for the folder that is being removed, and leaves the others.
func (r *remover) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.done.Wait()
}
