package catalog

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/containerd/containerd/v2/client"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/vouched"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
)

// Snapshotter is containerd's that layers are unpacked with; they are plain folders.
const Snapshotter = "overlayfs"

// Daemon is the part of containerd that images need.
type Daemon interface {
	// Client is Transient while containerd is away.
	Client(ctx context.Context) (*client.Client, error)
	// Namespace is ctx with a user's namespace; Users are the users with one.
	Namespace(ctx context.Context, user string) context.Context
	Users(ctx context.Context) ([]string, error)
}

// Config configures a Catalog; all of it must be set.
type Config struct {
	Daemon Daemon
	// InUse returns the labels that have a container.
	InUse func(ctx context.Context) (map[string]bool, error)
	// Emptied is called with the user ID once an image or a pull of a label is removed:
	// it may have been the user's last. label is empty for an evicted image.
	Emptied func(ctx context.Context, user, label string)
	// Lists keeps what Show lists from one look to the next, as long as it is told of changes; nil keeps nothing.
	Lists *Lists
	Clock clock.Clock
	Log   zerolog.Logger
}

// Lists keeps lists of users' images.
type Lists = vouched.Lists[[]Image]

// Catalog has the images of all users. New makes one; it is safe for concurrent use.
type Catalog struct {
	cfg Config
	// blobs are manifests and configs that were read.
	blobs   blobs
	removed atomic.Uint64
	// changes is held while something becomes garbage or stops being it.
	changes sync.Mutex
}

// New returns the catalog of containerd's images. It asks containerd nothing yet.
func New(c Config) *Catalog { return &Catalog{cfg: c} }

// In returns a user's namespace, and ctx with it.
func (c *Catalog) In(ctx context.Context, user string) (context.Context, Namespace, error) {
	to, err := c.cfg.Daemon.Client(ctx)
	if err != nil {
		return ctx, Namespace{}, Kinded(err, "reach containerd")
	}
	return c.cfg.Daemon.Namespace(ctx, user), Namespace{
		User: user, Content: to.ContentStore(), Snapshots: to.SnapshotService(Snapshotter),
		images: to.ImageService(), leases: to.LeasesService(), blobs: &c.blobs, lists: c.cfg.Lists,
	}, nil
}

// Each calls f for each user with all images of the user's.
func (c *Catalog) Each(ctx context.Context, f func(ctx context.Context, n Namespace, all []Image) error) error {
	return c.each(ctx, Namespace.list, f)
}

// Show calls f for each user with all images of the user's, which it doesn't change. They may be kept from an earlier look while
// containerd's events say that nothing has changed: what removes images goes by Each.
func (c *Catalog) Show(ctx context.Context, f func(all []Image)) error {
	return c.each(ctx, Namespace.kept, func(_ context.Context, _ Namespace, all []Image) error {
		f(all)
		return nil
	})
}

// each calls f for each user with what list lists.
func (c *Catalog) each(ctx context.Context, list func(Namespace, context.Context) ([]Image, error), f func(ctx context.Context, n Namespace, all []Image) error) error {
	users, err := c.cfg.Daemon.Users(ctx)
	if err != nil {
		return Kinded(err, "list users")
	}
	c.cfg.Lists.Only(users)
	for _, user := range users {
		in, n, err := c.In(ctx, user)
		if err != nil {
			return err
		}
		all, err := list(n, in)
		if err != nil {
			return err
		}
		if err := f(in, n, all); err != nil {
			return err
		}
	}
	return nil
}

// Find returns a label's image, also a released one, and the namespace that it is
// in. NotExist when there is none.
func (c *Catalog) Find(ctx context.Context, label string) (context.Context, Namespace, Image, error) {
	users, err := c.cfg.Daemon.Users(ctx)
	if err != nil {
		return ctx, Namespace{}, Image{}, Kinded(err, "list users")
	}
	for _, user := range users {
		in, n, err := c.In(ctx, user)
		if err != nil {
			return ctx, Namespace{}, Image{}, err
		}
		i, err := n.OfLabel(in, label)
		if node.KindOf(err) == node.NotExist {
			continue
		}
		return in, n, i, err
	}
	return ctx, Namespace{}, Image{}, node.Errorf(node.NotExist, "cannot find an image for %s", label)
}

// Removed is how many unused images were evicted since New.
func (c *Catalog) Removed() uint64 { return c.removed.Load() }

// Totals returns how many images there are, and their bytes.
func (c *Catalog) Totals(ctx context.Context) (images, bytes uint64, err error) {
	err = c.Show(ctx, func(all []Image) {
		for _, size := range sizes(all) {
			images, bytes = images+1, bytes+uint64(size)
		}
	})
	return images, bytes, err
}
