package image

import (
	"context"
	"crypto/tls"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/node"
)

// Daemon is what the store needs of containerd.
type Daemon interface {
	// Client is Transient while containerd is away.
	Client(ctx context.Context) (*client.Client, error)
	// Namespace is ctx with a user's namespace, Users who has one.
	Namespace(ctx context.Context, user string) context.Context
	Users(ctx context.Context) ([]string, error)
}

// Space is how full a file system is, in bytes.
type Space struct{ Used, Total, Free uint64 }

// The limits when Config doesn't say.
const (
	DefaultMaxSize    = int64(16) << 30
	DefaultUserBudget = int64(64) << 30
	DefaultMaxFiles   = int64(1_000_000)
	DefaultFull       = 0.8
	DefaultUnused     = 14 * 24 * time.Hour
	DefaultSilence    = 30 * time.Second
	DefaultAnswer     = 10 * time.Second
	DefaultBackoff    = time.Second
	DefaultTurn       = time.Minute
	DefaultUnpackTurn = 30 * time.Second
	DefaultEvery      = 10 * time.Minute
)

// Config is what a Store is made of.
type Config struct {
	Daemon Daemon
	// Dialer makes all connections; TLS is for registries with a private
	// authority, nil is this machine's.
	Dialer *dial.Dialer
	TLS    *tls.Config
	// PlainHTTP are the HOST:PORT of registries that are asked without TLS.
	PlainHTTP []string
	// Paths are the folders below which images may lie on this machine.
	Paths []string
	// Own are the node's own images by name, each the absolute path of an OCI
	// layout folder or a tar: croft://NAME is one, for node.OwnUser only.
	Own map[string]string
	// Unpack is the command that starts a process for one layer, which must end up in
	// unpack.Serve.
	Unpack []string
	// Confine limits such a process before it gets its layer; may be nil.
	Confine func(pid int)
	// MaxSize is the most bytes of one image, packed and unpacked, MaxFiles the
	// most files and folders; UserBudget the most bytes of one user's images.
	MaxSize, MaxFiles, UserBudget int64
	// Full is how full the file system may be before unused images go, of 1;
	// Unused how long one is kept that nothing uses.
	Full   float64
	Unused time.Duration
	// Silence is how long a registry may say nothing. Answer is how long a tag
	// may take to be resolved when what it led to before is here.
	Silence, Answer time.Duration
	// Backoff is the pause after the first failure; it doubles up to a minute.
	Backoff time.Duration
	// Turn is how long a pull may fetch while others wait; then it goes on
	// behind them, where it was.
	Turn time.Duration
	// UnpackTurn is how long a layer may be unpacked while others wait; then it is
	// begun anew behind them, with twice as long a turn.
	UnpackTurn time.Duration
	// Every is how often garbage is looked for.
	Every time.Duration
	// InUse are the labels whose containers stand; nil when nobody knows.
	InUse func(ctx context.Context) (map[string]bool, error)
	// Emptied is told whose image or pull is gone, all of it: it may have been
	// the last of what they had. nil when nobody wants to know.
	Emptied func(ctx context.Context, user string)
	// Space is that of the file system of unpacked images; nil asks the kernel.
	Space func(ctx context.Context) (Space, error)
	Clock clock.Clock
	Log   zerolog.Logger
}

// Validate names the field that is wrong. node.Invalid.
func (c Config) Validate() error {
	invalid := func(format string, args ...any) error {
		return node.Errorf(node.Invalid, "cannot use the images' settings: "+format, args...)
	}
	for _, p := range c.Paths {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p {
			return invalid("Paths has %q, must be absolute paths without . and ..", p)
		}
	}
	for name, p := range c.Own {
		if !ownForm.MatchString(name) || !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" {
			return invalid("Own has %q at %q, must be a name of small letters and digits, and an absolute path without . and ..", name, p)
		}
	}
	switch {
	case c.Daemon == nil || c.Dialer == nil:
		return invalid("Daemon or Dialer is missing")
	case len(c.Unpack) == 0:
		return invalid("Unpack is missing")
	case c.Full < 0 || c.Full > 1:
		return invalid("Full is %v, must be from 0 to 1", c.Full)
	case c.MaxSize < 0 || c.MaxFiles < 0 || c.UserBudget < 0:
		return invalid("MaxSize, MaxFiles or UserBudget is negative")
	case c.Unused < 0 || c.Silence < 0 || c.Answer < 0 || c.Backoff < 0 || c.Turn < 0 || c.UnpackTurn < 0 || c.Every < 0:
		return invalid("Unused, Silence, Answer, Backoff, Turn, UnpackTurn or Every is negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	orDefault(&c.MaxSize, DefaultMaxSize)
	orDefault(&c.MaxFiles, DefaultMaxFiles)
	orDefault(&c.UserBudget, DefaultUserBudget)
	orDefault(&c.Full, DefaultFull)
	orDefault(&c.Unused, DefaultUnused)
	orDefault(&c.Silence, DefaultSilence)
	orDefault(&c.Answer, DefaultAnswer)
	orDefault(&c.Backoff, DefaultBackoff)
	orDefault(&c.Turn, DefaultTurn)
	orDefault(&c.UnpackTurn, DefaultUnpackTurn)
	orDefault(&c.Every, DefaultEvery)
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
