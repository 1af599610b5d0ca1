package logs

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
)

// Keeper has a carrier at all times once there is something to carry: one that
// ends is started again at once. It holds the FIFOs open too, so that a container's last output isn't lost
// when it ends while there is no carrier.
type Keeper struct {
	config Config
	// needed is closed when a carrier is asked for.
	needed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	now  *Carrier
	held map[string][]*os.File
}

const (
	// triesOfCall is how many carriers are asked for one thing.
	triesOfCall = 5
	// leastPause and mostPause are how long Run waits after a carrier that
	// couldn't be started.
	leastPause = 100 * time.Millisecond
	mostPause  = 10 * time.Second
)

// NewKeeper makes a keeper. Nothing happens before Run or a call.
func NewKeeper(c Config) *Keeper {
	return &Keeper{config: c, needed: make(chan struct{}), held: map[string][]*os.File{}}
}

// Run keeps a carrier running until ctx is done, from when the first container
// is opened, or at once where there is one, or a carrier. The carrier outlives it.
func (k *Keeper) Run(ctx context.Context) error {
	if !k.found() {
		select {
		case <-ctx.Done():
		case <-k.needed:
		}
	}
	wait := leastPause
	for ctx.Err() == nil {
		c, err := k.Carrier(ctx)
		if err != nil {
			if ctx.Err() == nil {
				k.config.Log.Warn().Str("step", "carrier").Err(err).Msg("cannot reach the log carrier")
			}
			pause(ctx, wait)
			wait = min(2*wait, mostPause)
			continue
		}
		wait = leastPause
		select {
		case <-ctx.Done():
		case <-c.Done():
			k.config.Log.Warn().Str("step", "carrier").Int("pid", c.PID()).Msg("the log carrier has ended")
		}
	}
	return nil
}

// found reports whether an earlier process has left containers or a carrier.
func (k *Keeper) found() bool {
	dir := kind().Folder(k.config.RunDir)
	if _, err := os.Lstat(dir.Socket()); err == nil {
		return true
	}
	left, _ := filepath.Glob(filepath.Join(dir.Path("c"), "*"))
	return len(left) > 0
}

// Running is the carrier that this keeper knows to run, nil when there is none.
func (k *Keeper) Running() *Carrier {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now == nil {
		return nil
	}
	select {
	case <-k.now.Done():
		return nil
	default:
		return k.now
	}
}

// Carrier is the one that runs; it is started when there is none.
func (k *Keeper) Carrier(ctx context.Context) (*Carrier, error) {
	k.once.Do(func() { close(k.needed) })
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now != nil {
		select {
		case <-k.now.Done():
			k.now.Close()
			k.now = nil
		default:
			return k.now, nil
		}
	}
	c, err := Ensure(ctx, k.config)
	if err != nil {
		return nil, err
	}
	k.now = c
	found, _ := filepath.Glob(filepath.Join(fifosOf(k.config.RunDir), "*"))
	for _, path := range found {
		k.hold(filepath.Base(path))
	}
	return c, nil
}

// Open is Carrier.Open, by whichever carrier runs.
func (k *Keeper) Open(ctx context.Context, id, user string) (FIFOs, error) {
	var out FIFOs
	err := k.ask(ctx, func(c *Carrier) (err error) {
		out, err = c.Open(ctx, id, user)
		return err
	})
	if err == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.hold(id)
	}
	return out, err
}

// Drop is Carrier.Drop, by whichever carrier runs.
func (k *Keeper) Drop(ctx context.Context, id string, keepFiles bool) error {
	err := k.ask(ctx, func(c *Carrier) error { return c.Drop(ctx, id, keepFiles) })
	if err == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.letGo(id)
	}
	return err
}

// List is Carrier.List, by whichever carrier runs.
func (k *Keeper) List(ctx context.Context) (ids []string, err error) {
	err = k.ask(ctx, func(c *Carrier) (err error) {
		ids, err = c.List(ctx)
		return err
	})
	return ids, err
}

// Info is Carrier.Info, by whichever carrier runs.
func (k *Keeper) Info(ctx context.Context) (info Info, err error) {
	err = k.ask(ctx, func(c *Carrier) (err error) {
		info, err = c.Info(ctx)
		return err
	})
	return info, err
}

// Close lets go of the carrier, which goes on.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now != nil {
		k.now.Close()
		k.now = nil
	}
	for id := range k.held {
		k.letGo(id)
	}
}

// ask sends an idempotent request to a carrier, and to the next one when that one
// ends meanwhile.
func (k *Keeper) ask(ctx context.Context, f func(*Carrier) error) error {
	for try := 1; ; try++ {
		c, err := k.Carrier(ctx)
		if err != nil {
			return err
		}
		err = f(c)
		if !errors.Is(err, node.Transient) && !errors.Is(err, node.Unknown) || try == triesOfCall || ctx.Err() != nil {
			return err
		}
		// Its end may be seen a moment after its silence.
		select {
		case <-c.Done():
		case <-ctx.Done():
			return err
		case <-time.After(leastPause):
		}
	}
}

// hold opens the FIFOs of a container, as far as they are there. It
// closes those before only then: they may be the last that keep the FIFOs' content.
func (k *Keeper) hold(id string) {
	var held []*os.File
	for _, name := range []string{stdout, stderr} {
		path := filepath.Join(fifosOf(k.config.RunDir), id, name)
		if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
			continue
		}
		if file, err := openFIFO(path); err == nil {
			held = append(held, file)
		}
	}
	k.letGo(id)
	if len(held) > 0 {
		k.held[id] = held
	}
}

func (k *Keeper) letGo(id string) {
	for _, file := range k.held[id] {
		_ = file.Close()
	}
	delete(k.held, id)
}
