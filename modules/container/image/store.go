package image

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// snapshotter unpacks; its layers are plain folders.
const snapshotter = "overlayfs"

// Store pulls and keeps images. Open makes one; it is safe for concurrent use.
type Store struct {
	cfg   Config
	alive context.Context // it is the store's life
	end   context.CancelFunc
	all   sync.WaitGroup
	// pulls are for fetching, unpacks for unpacking what was fetched.
	pulls, unpacks *limit.Line
	waste          waste
	// idle are the images of labels that no container is made of yet.
	idle map[string]idle
	// same lets one pull a user and reference run.
	same keyed
	// blobs are manifests and configs that were read.
	blobs blobs

	mu      sync.Mutex
	jobs    map[string]*job
	removed uint64
	// writing is held while something becomes garbage or stops being it.
	writing sync.Mutex
}

// Open makes a store on what containerd has. It asks nothing yet.
func Open(c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	alive, end := context.WithCancel(context.Background())
	return &Store{cfg: c.withDefaults(), alive: alive, end: end, jobs: map[string]*job{}, idle: map[string]idle{}, pulls: limit.NewLine(Pulls), unpacks: limit.NewLine(Unpacks)}, nil
}

// Close breaks off all pulls and waits for them. What they have fetched stays.
func (s *Store) Close() error {
	s.end()
	s.all.Wait()
	return nil
}

// parts are containerd's services in the namespace of a user.
type parts struct {
	user      string
	client    *client.Client
	images    images.Store
	content   content.Store
	snapshots snapshots.Snapshotter
	leases    leases.Manager
	blobs     *blobs
}

// parts returns ctx with the user's namespace and what is in it.
func (s *Store) parts(ctx context.Context, user string) (context.Context, parts, error) {
	c, err := s.cfg.Daemon.Client(ctx)
	if err != nil {
		return ctx, parts{}, backend(err, "reach containerd")
	}
	return s.cfg.Daemon.Namespace(ctx, user), parts{
		user: user, client: c, images: c.ImageService(), content: c.ContentStore(),
		snapshots: c.SnapshotService(snapshotter), leases: c.LeasesService(), blobs: &s.blobs,
	}, nil
}

// Images is the contract node.Images, for a bus.
func (s *Store) Images() node.Images { return service{s} }

// longestCall is for a call that waits for nothing but containerd.
const longestCall = time.Minute

type service struct{ s *Store }

func (o service) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(o.s.alive, longestCall)
}

func (o service) Pull(spec node.ImageSpec) (node.Image, error) {
	ctx, cancel := o.within()
	defer cancel()
	return o.s.Pull(ctx, spec)
}

func (o service) Inspect(label string) (node.Image, error) {
	ctx, cancel := o.within()
	defer cancel()
	return o.s.Inspect(ctx, label)
}

func (o service) Release(label string) error {
	ctx, cancel := o.within()
	defer cancel()
	return o.s.Release(ctx, label)
}

func (o service) List() ([]node.Image, error) {
	ctx, cancel := o.within()
	defer cancel()
	return o.s.List(ctx)
}

func (o service) Status() (node.ImageStatus, error) {
	ctx, cancel := o.within()
	defer cancel()
	return o.s.Status(ctx)
}
