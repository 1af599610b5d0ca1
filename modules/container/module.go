package container

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/logs"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/modules/container/secret"
	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/pkg/node"
)

// mostLaunches are at work at once: more make all of them slower.
const mostLaunches = 4

// launchTurn is how long a start at most keeps others waiting.
const launchTurn = 5 * time.Second

// Module owns the node's containers. Open makes one; it is safe for concurrent use.
type Module struct {
	cfg      Config
	daemon   connection
	roots    stands
	outputs  outputs
	pictures pictures
	secrets  *secret.Store
	host     spec.Host
	// runcVersion is what runc says it is.
	runcVersion string
	lock        *os.File

	ctx  context.Context //nolint:containedctx // it ends what the contract's calls wait for, which have none
	stop context.CancelFunc
	// lookAgain is how often all containers are looked at.
	lookAgain time.Duration
	// launches holds a token for each start at work.
	launches chan struct{}
	// work are the goroutines that this module has started.
	work sync.WaitGroup

	mu         sync.Mutex
	items      map[string]*item
	supervises bool
	closed     bool
}

// Open opens the module on what is there: containers that run are adopted as
// they are, and none is touched. Nothing is started again before Run. Busy when
// another module has them open.
func Open(ctx context.Context, c Config) (*Module, error) { return open(ctx, c, openPictures) }

// open is Open with other images.
func open(ctx context.Context, c Config, openPictures func(Config, *containerd.Daemon, *Module) (pictures, error)) (*Module, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	for _, dir := range []string{c.supervised(), c.execs()} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, node.Errorf(node.Internal, "cannot make the containers' folder: %w", err)
		}
	}
	lock, err := c.lock()
	if err != nil {
		return nil, err
	}
	m, err := openLocked(ctx, c, lock, openPictures)
	if err != nil {
		_ = unlock(lock)
	}
	return m, err
}

// openLocked is open once nobody else has the containers. The lock is the
// module's when there is no error.
func openLocked(ctx context.Context, c Config, lock *os.File, openPictures func(Config, *containerd.Daemon, *Module) (pictures, error)) (*Module, error) {
	host, version, err := openRuntime(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := c.ceil(); err != nil {
		c.Log.Warn().Err(err).Str("type", "container").Msg("all containers together aren't held below what the node keeps for itself")
	}
	roots, err := rootfs.Open(rootfs.Config{RunDir: c.RunDir, StateDir: c.StateDir, Log: c.Log})
	if err != nil {
		return nil, err
	}
	secrets, err := secret.Open(c.RunDir)
	if err != nil {
		return nil, err
	}
	daemon, err := containerd.Open(ctx, c.Containerd)
	if err != nil {
		return nil, err
	}
	m := &Module{cfg: c, daemon: daemon, roots: roots, secrets: secrets, host: host, runcVersion: version, outputs: logs.NewKeeper(c.Logs), items: map[string]*item{}, launches: make(chan struct{}, mostLaunches), lookAgain: defaultLook}
	m.ctx, m.stop = context.WithCancel(context.Background())
	if err = m.load(); err == nil {
		m.pictures, err = openPictures(c, daemon, m)
	}
	if err != nil {
		_ = m.Close()
		return nil, err
	}
	m.lock = lock
	return m, nil
}

// load reads the records that an earlier process left.
func (m *Module) load() error {
	all, err := m.cfg.readRecords()
	for id, r := range all {
		m.items[id] = &item{id: id, op: make(chan struct{}, 1), record: r, known: true}
	}
	return err
}

// Run watches over the containers, the log carrier and the images until ctx is done.
func (m *Module) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	for name, part := range map[string]func(context.Context) error{
		"logs": m.outputs.Run, "images": m.pictures.Run, "containers": m.supervise,
	} {
		parts.Go(func() {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				m.cfg.Log.Error().Err(err).Str("type", "container").Str("step", name).Msg("a part of the container module has ended")
			}
		})
	}
	parts.Wait()
	return nil
}

// Close ends the module: its calls fail. Containers go on. It waits for the
// changes in hand.
func (m *Module) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed, m.supervises = true, false
	for _, it := range m.items {
		m.setTimer(it)
	}
	m.mu.Unlock()
	m.stop()
	m.work.Wait()
	m.outputs.Close()
	m.roots.Close()
	if m.pictures != nil {
		_ = m.pictures.Close()
	}
	err := m.daemon.Close()
	if m.lock != nil {
		_ = unlock(m.lock)
	}
	return err
}

// spawn does something beside, unless the module is closed. It reports whether it does.
func (m *Module) spawn(do func(ctx context.Context)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.work.Go(func() { do(m.ctx) })
	return true
}

// Containers is what goes on the bus as container.container.
func (m *Module) Containers() node.Containers { return service{m} }

// Images is what goes on the bus as container.image.
func (m *Module) Images() node.Images { return held{m.pictures.Images(), m} }
