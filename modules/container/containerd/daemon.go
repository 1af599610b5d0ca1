package containerd

import (
	"context"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/dialer"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/croft-edge/croft/pkg/node"
)

const (
	// mostWait is how long Client waits for a containerd that is away; a caller's
	// deadline may be sooner.
	mostWait = 10 * time.Second
	// statusWait is how long Status waits for an answer.
	statusWait = 2 * time.Second
)

// Daemon is the containerd in use. Open makes one; it is safe for concurrent use.
type Daemon struct {
	cfg     Config
	address string
	own     bool
	client  *client.Client
	stop    context.CancelFunc
	ended   chan struct{}

	mu      sync.Mutex
	version string // last known; empty before the first answer
}

// Open finds the containerd to use, and starts croft's own when necessary. One
// at a given address may be away for now: Client is Transient then. Refused when it
// is too old or there is no program to start, Transient when croft's own
// doesn't come up.
func Open(ctx context.Context, c Config) (*Daemon, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	address, own, err := c.choose(ctx)
	if err != nil {
		return nil, err
	}
	d, err := c.connect(address, own)
	if err != nil {
		return nil, err
	}
	alive, stop := context.WithCancel(context.Background())
	d.stop = stop
	if !own {
		close(d.ended)
		return d, d.firstLook(ctx)
	}
	p, err := c.ensure(ctx)
	if err == nil {
		go d.keep(alive, p)
		err = d.firstLook(ctx)
	} else {
		close(d.ended)
	}
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// connect makes the client, which connects when it is used, and again whenever
// containerd is back.
func (c Config) connect(address string, own bool) (*Daemon, error) {
	to, err := client.New(address, client.WithDialOpts([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(dialer.ContextDialer),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: mostWait,
		}),
	}))
	if err != nil {
		return nil, node.Errorf(node.Internal, "cannot connect to containerd at %s: %w", address, err)
	}
	return &Daemon{cfg: c, address: address, own: own, client: to, stop: func() {}, ended: make(chan struct{})}, nil
}

// firstLook asks for the version. One that isn't croft's own may be away.
func (d *Daemon) firstLook(ctx context.Context) error {
	_, err := d.Client(ctx)
	if err != nil && !d.own && node.KindOf(err) == node.Transient {
		d.cfg.Log.Warn().Str("step", "containerd").Err(err).Msg("containerd doesn't answer")
		return nil
	}
	return err
}

// Client returns the client, of a containerd that has just answered or is
// connected. Transient while it is away, also for calls on the client: it
// connects again by itself.
func (d *Daemon) Client(ctx context.Context) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, mostWait)
	defer cancel()
	conn, ok := d.client.Conn().(*grpc.ClientConn)
	if !ok {
		return nil, node.Errorf(node.Internal, "cannot reach containerd at %s: there is no connection", d.address)
	}
	for {
		state := conn.GetState()
		if state == connectivity.Ready {
			break
		}
		if state == connectivity.Shutdown {
			return nil, node.Errorf(node.Transient, "cannot reach containerd at %s: the connection is closed", d.address)
		}
		conn.Connect()
		if !conn.WaitForStateChange(ctx, state) {
			return nil, node.Errorf(node.Transient, "cannot reach containerd at %s: %w", d.address, ctx.Err())
		}
	}
	d.mu.Lock()
	known := d.version
	d.mu.Unlock()
	if known == "" {
		if _, err := d.ask(ctx); err != nil {
			return nil, err
		}
	}
	return d.client, nil
}

// ask asks for the version and remembers it. Refused when it is too old.
func (d *Daemon) ask(ctx context.Context) (string, error) {
	v, err := d.client.Version(ctx)
	if err != nil {
		return "", Error(err, "ask containerd at %s for its version", d.address)
	}
	if err := checkVersion(d.address, v.Version); err != nil {
		return v.Version, err
	}
	d.mu.Lock()
	d.version = v.Version
	d.mu.Unlock()
	return v.Version, nil
}

// Namespace is ctx with the containerd namespace of a user.
func (d *Daemon) Namespace(ctx context.Context, user string) context.Context {
	return namespaces.WithNamespace(ctx, d.NamespaceName(user))
}

// NamespaceName is the name of the containerd namespace of a user.
func (d *Daemon) NamespaceName(user string) string { return d.cfg.Prefix + "-" + user }

// UserOf is the user whose namespace that is, if it is one of this node's.
func (d *Daemon) UserOf(namespace string) (string, bool) {
	return strings.CutPrefix(namespace, d.cfg.Prefix+"-")
}

// Bundle is the folder in which croft's own containerd keeps the task of a
// user's container while there is one; empty for another containerd.
func (d *Daemon) Bundle(user, id string) string {
	if !d.own {
		return ""
	}
	return filepath.Join(d.cfg.run(), "state", "io.containerd.runtime.v2.task", d.NamespaceName(user), id)
}

// Users are the users who have a namespace of this node, sorted.
func (d *Daemon) Users(ctx context.Context) ([]string, error) {
	c, err := d.Client(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.NamespaceService().List(ctx)
	if err != nil {
		return nil, Error(err, "list containerd's namespaces")
	}
	var users []string
	for _, name := range all {
		if user, ok := d.UserOf(name); ok {
			users = append(users, user)
		}
	}
	sort.Strings(users)
	return users, nil
}

// Status says which containerd is in use, its last known version, whether it
// is croft's own, and why it doesn't answer now.
func (d *Daemon) Status() (address, version string, own bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), statusWait)
	defer cancel()
	if _, err = d.Client(ctx); err == nil {
		_, err = d.ask(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.address, d.version, d.own, err
}

// Address is the socket of the containerd in use.
func (d *Daemon) Address() string { return d.address }

// Close lets go of containerd, which goes on.
func (d *Daemon) Close() error {
	d.stop()
	<-d.ended
	return d.client.Close()
}
