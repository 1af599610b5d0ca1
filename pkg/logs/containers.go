package logs

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

// defaultSlow is how long a container waits for its disk, or for its turn.
const defaultSlow = 5 * time.Second

// limits are those of each container.
type limits struct {
	size      int64
	files     int
	slow      time.Duration
	pool      *sync.Pool
	scheduler *scheduler
	// gate is closed when reading may begin; nil for at once.
	gate <-chan struct{}
}

// await waits until reading may begin, or ctx is done.
func (l limits) await(ctx context.Context) {
	if l.gate == nil {
		return
	}
	select {
	case <-l.gate:
	case <-ctx.Done():
	}
}

// containers are all containers whose output this process reads.
type containers struct {
	fifos  string // {run}/log/c
	files  string
	limits limits
	log    zerolog.Logger

	mu  sync.Mutex
	all map[string]*container
	// busy are those that somebody opens or drops: a slow disk of one is no
	// reason for others to wait.
	busy map[string]chan struct{}
}

func newContainers(fifos, files string, l limits, log zerolog.Logger) *containers {
	return &containers{fifos: fifos, files: files, limits: l, log: log, all: map[string]*container{}, busy: map[string]chan struct{}{}}
}

// claim waits until nobody else opens or drops that container.
func (c *containers) claim(ctx context.Context, id string) (there *container, release func(), err error) {
	for {
		c.mu.Lock()
		wait := c.busy[id]
		if wait == nil {
			mine := make(chan struct{})
			c.busy[id] = mine
			there = c.all[id]
			c.mu.Unlock()
			return there, func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				delete(c.busy, id)
				close(mine)
			}, nil
		}
		c.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, nil, node.Errorf(node.Busy, "cannot use the logs of %s: its disk doesn't answer", id)
		}
	}
}

// put remembers a container; nil forgets it.
func (c *containers) put(id string, is *container) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if is == nil {
		delete(c.all, id)
	} else {
		c.all[id] = is
	}
}

func (c *containers) place(id string) place {
	return place{fifos: filepath.Join(c.fifos, id), files: filepath.Join(c.files, id)}
}

// found opens those that an earlier carrier had, and waits for them but not
// for ever. One that can't be opened doesn't keep others from it, and none is read
// before: those that write the most would keep others from being opened.
func (c *containers) found(ctx context.Context) {
	gate := make(chan struct{})
	defer close(gate)
	c.limits.gate = gate
	entries, err := os.ReadDir(c.fifos)
	if err != nil && !os.IsNotExist(err) {
		c.log.Error().Err(err).Msg("cannot find the containers of an earlier carrier")
	}
	var opened sync.WaitGroup
	for _, e := range entries {
		opened.Go(func() {
			if _, err := c.open(ctx, e.Name(), ""); err != nil {
				c.log.Error().Str("id", e.Name()).Err(err).Msg("cannot open a container of an earlier carrier")
			}
		})
	}
	all := make(chan struct{})
	go func() {
		opened.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(c.limits.slow):
		c.log.Warn().Msg("not all containers of an earlier carrier are read yet")
	}
}

// open opens a container. An empty user is the one that was noted before.
func (c *containers) open(ctx context.Context, id, user string) (FIFOs, error) {
	if err := checkID(id); err != nil {
		return FIFOs{}, err
	}
	if len(user) > maxUser {
		return FIFOs{}, node.Errorf(node.Invalid, "cannot open the logs of %s: its user has %d bytes, at most %d are allowed", id, len(user), maxUser)
	}
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	there, release, err := c.claim(ctx, id)
	if err != nil {
		return FIFOs{}, err
	}
	defer release()
	if there != nil {
		if there.whole() {
			return there.place.paths(), nil
		}
		// Somebody removed its FIFOs, or it was being dropped: it is made anew.
		if err := there.end(ctx, true); err != nil {
			return FIFOs{}, err
		}
		c.put(id, nil)
	}
	if err := c.place(id).make(user); err != nil {
		return FIFOs{}, err
	}
	made, err := openContainer(id, c.place(id), c.limits, c.log)
	if err != nil {
		return FIFOs{}, err
	}
	c.put(id, made)
	c.log.Debug().Str("id", id).Msg("container opened")
	return made.place.paths(), nil
}

// maxUser is the longest user, in bytes.
const maxUser = 128

// endWithin is how long the begin or end of a container may take.
const endWithin = 10 * time.Second

func (c *containers) drop(ctx context.Context, id string, keepFiles bool) error {
	if err := checkID(id); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	there, release, err := c.claim(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	if there != nil {
		if err := there.end(ctx, true); err != nil {
			return err
		}
	}
	c.put(id, nil)
	c.log.Debug().Str("id", id).Bool("keep", keepFiles).Msg("container dropped")
	return c.place(id).remove(keepFiles)
}

func (c *containers) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]string, 0, len(c.all))
	for id := range c.all {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// close stops reading. All stays for the next carrier.
func (c *containers) close() {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	var wg sync.WaitGroup // of those that are being opened the next one takes care
	for _, there := range c.all {
		wg.Go(func() {
			if err := there.end(ctx, false); err != nil {
				c.log.Warn().Err(err).Msg("a container is left in the middle of a write")
			}
		})
	}
	wg.Wait()
}
