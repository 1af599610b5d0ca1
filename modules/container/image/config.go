package image

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/image/catalog"
	"github.com/croft-edge/croft/modules/container/image/source"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
)

// The defaults of Config: those of the settings max-image-size, max-user-images, image-full and image-unused.
const (
	DefaultMaxSize    = int64(10) << 30
	DefaultUserBudget = int64(20) << 30
	DefaultMaxFiles   = int64(1_000_000)
	DefaultFull       = 0.8
	DefaultUnused     = 14 * 24 * time.Hour
	DefaultAnswer     = 10 * time.Second
	DefaultBackoff    = time.Second
	DefaultTurn       = time.Minute
	DefaultUnpackTurn = 30 * time.Second
	DefaultEvery      = 10 * time.Minute
)

// Config configures a Store.
type Config struct {
	// Daemon is containerd.
	Daemon catalog.Daemon
	// Sources says where images may come from.
	Sources    source.Config
	Limits     Limits
	Pulling    Pulling
	Unpacking  Unpacking
	Collection Collection
	// InUse returns the labels that have a container; nil when nobody knows.
	InUse func(ctx context.Context) (map[string]bool, error)
	// Emptied is called with the user ID when an image or a pull of a user was removed
	// who has no other pull running: it may have been the user's last. May be nil.
	Emptied func(ctx context.Context, user string)
	// Lists keeps lists of images while it is told of changes; nil keeps none. The container module sets its own.
	Lists *catalog.Lists
	// Space is that of the file system of unpacked images; nil asks the kernel.
	Space func(ctx context.Context) (Space, error)
	Clock clock.Clock
	Log   zerolog.Logger
}

// Limits bound images.
type Limits struct {
	// MaxSize is the most bytes of one image, packed and unpacked, MaxFiles the
	// most files and folders; UserBudget the most bytes of one user's images.
	MaxSize, MaxFiles, UserBudget int64
}

// Pulling is the timing of pulls.
type Pulling struct {
	// Answer is how long a tag may take to be resolved when the user has the image
	// that it led to before.
	Answer time.Duration
	// Backoff is the pause after the first failure; it doubles up to a minute.
	Backoff time.Duration
	// Turn is how long a pull may fetch while others wait; then it continues
	// behind them, where it was.
	Turn time.Duration
}

// Unpacking says how layers are unpacked.
type Unpacking struct {
	// Command starts a process for one layer, which must end up in unpack.Serve.
	Command []string
	// Confine limits such a process before it gets its layer; may be nil.
	Confine func(pid int)
	// Turn is how long a layer may be unpacked while others wait; then it starts
	// again behind them, with twice as long a turn.
	Turn time.Duration
}

// Collection says when unused images are removed.
type Collection struct {
	// Full is how full the file system may be before unused images go, of 1;
	// Unused how long an unused image is kept; Every how often both are checked.
	Full          float64
	Unused, Every time.Duration
}

// Validate names the field that is wrong. node.Invalid.
func (c Config) Validate() error {
	invalid := func(format string, args ...any) error {
		return node.Errorf(node.Invalid, "cannot use the images' settings: "+format, args...)
	}
	if err := c.Sources.Validate(); err != nil {
		return err
	}
	l, p, k := c.Limits, c.Pulling, c.Collection
	switch {
	case c.Daemon == nil:
		return invalid("Daemon is missing")
	case len(c.Unpacking.Command) == 0:
		return invalid("Unpacking.Command is missing")
	case k.Full < 0 || k.Full > 1:
		return invalid("Collection.Full is %v, must be from 0 to 1", k.Full)
	case l.MaxSize < 0 || l.MaxFiles < 0 || l.UserBudget < 0:
		return invalid("MaxSize, MaxFiles or UserBudget is negative")
	case k.Unused < 0 || k.Every < 0 || p.Answer < 0 || p.Backoff < 0 || p.Turn < 0 || c.Unpacking.Turn < 0:
		return invalid("Unused, Every, Answer, Backoff or a Turn is negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	orDefault(&c.Limits.MaxSize, DefaultMaxSize)
	orDefault(&c.Limits.MaxFiles, DefaultMaxFiles)
	orDefault(&c.Limits.UserBudget, DefaultUserBudget)
	orDefault(&c.Collection.Full, DefaultFull)
	orDefault(&c.Collection.Unused, DefaultUnused)
	orDefault(&c.Collection.Every, DefaultEvery)
	orDefault(&c.Pulling.Answer, DefaultAnswer)
	orDefault(&c.Pulling.Backoff, DefaultBackoff)
	orDefault(&c.Pulling.Turn, DefaultTurn)
	orDefault(&c.Unpacking.Turn, DefaultUnpackTurn)
	if c.Clock == nil {
		c.Clock = clock.System{}
	}
	if c.InUse == nil {
		c.InUse = func(context.Context) (map[string]bool, error) { return nil, nil }
	}
	if c.Emptied == nil {
		c.Emptied = func(context.Context, string) {}
	}
	return c
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
