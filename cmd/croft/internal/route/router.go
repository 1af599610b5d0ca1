package route

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/memory"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/sign"
)

const (
	// explorerWait is how long an explorer may take to show a node whose address is noted.
	explorerWait = 3 * time.Second
	// addressAge is how long a noted address is good enough not to ask again.
	addressAge = time.Hour
	// learnWait bounds Learn, learnAtOnce how many nodes it asks for at a time.
	learnWait   = 2 * time.Second
	learnAtOnce = 16
)

// Config configures a Router.
type Config struct {
	// Explorer is the explorer's URL; Client connects to it.
	Explorer string
	Client   func(signed bool) (*explorer.Client, error)
	// Key is the user's, shown to nodes.
	Key func() (sign.KeyPair, error)
	// Address is the only place where nodes are called; empty to find them.
	Address string
	// Notes is the path of the file of addresses; empty for none.
	Notes string
	Now   func() time.Time
	// Interrupted is the error of a run that the user has ended.
	Interrupted func() error
}

// Router connects to nodes.
type Router struct {
	cfg   Config
	notes *notes
	// away is set once the explorer is known to be away: it isn't waited for again.
	away *AwayError
}

// New makes a Router.
func New(c Config) *Router {
	return &Router{cfg: c, notes: &notes{path: c.Notes, explorer: c.Explorer, now: c.Now}}
}

// AwayError says that the explorer is away, and since when.
type AwayError struct {
	since string
	err   error
}

func (e *AwayError) Error() string {
	return fmt.Sprintf("the explorer is away%s: %s", e.since, e.err)
}
func (e *AwayError) Unwrap() error { return e.err }

// Away says since when the explorer is away if err comes of that; other errors stay.
func (r *Router) Away(err error) error {
	if already := (*AwayError)(nil); !r.isAway(err) || errors.As(err, &already) {
		return err
	}
	return &AwayError{r.notes.lastAnswer(), err}
}

// isAway reports whether err says that the explorer can't be asked now: it isn't reached,
// or isn't itself. A refusal of a kind of its own is an answer.
func (r *Router) isAway(err error) bool {
	if err == nil || r.cfg.Interrupted() != nil || node.KindOf(err) != node.Transient && !errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var answer *explorer.AnswerError
	return !errors.As(err, &answer) || answer.Problem.Status >= 500
}

// GiveUp has nodes called at their noted addresses from now on, because the explorer is away.
func (r *Router) GiveUp(away *AwayError) { r.away = away }

// GivenUp reports whether GiveUp was called.
func (r *Router) GivenUp() bool { return r.away != nil }

// Dial connects to a node: at the user's address, else at the explorer's, else through the
// explorer; at the noted address while the explorer is away.
func (r *Router) Dial(ctx context.Context, nodeID string) (*nodeapi.Conn, error) {
	key, err := r.cfg.Key()
	if err != nil {
		return nil, err
	}
	d := nodeapi.Dialer{Node: nodeID, User: key, Now: r.cfg.Now, Address: r.cfg.Address}
	if d.Address != "" {
		return d.Dial(ctx)
	}
	client, err := r.cfg.Client(true)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	away := error(nil)
	if r.away != nil {
		d.Address, away = r.notes.doors()[nodeID].Address, r.away
	} else {
		d.Address, away = r.find(ctx, client, nodeID)
	}
	if away == nil {
		d.Tunnel = func(ctx context.Context) (net.Conn, error) { return client.ConnectNode(ctx, nodeID) }
		return d.Dial(ctx)
	}
	if d.Address == "" {
		return nil, errors.Wrapf(away, "cannot reach node %s: no address of its own is remembered", nodeID)
	}
	conn, err := d.Dial(ctx)
	if err != nil {
		return nil, node.Errorf(node.KindOf(err), "%w; %w", err, away)
	}
	return conn, nil
}

// find is a node's address: the explorer's, else the noted one; away is the error of an
// explorer that is away.
func (r *Router) find(ctx context.Context, client *explorer.Client, nodeID string) (address string, away error) {
	noted := r.notes.doors()[nodeID].Address
	if noted != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, explorerWait)
		defer cancel()
	}
	n, err := client.Node(ctx, nodeID)
	switch {
	case err == nil:
		r.notes.answered(n)
		return n.Door, nil
	case r.isAway(err):
		return noted, &AwayError{r.notes.lastAnswer(), err}
	}
	return "", nil
}

// Learn notes the addresses of nodes, for when the explorer is away.
func (r *Router) Learn(ctx context.Context, nodes []string) {
	ctx, cancel := context.WithTimeout(ctx, learnWait)
	defer cancel()
	client, err := r.cfg.Client(false)
	if err != nil {
		return
	}
	defer client.Close()
	known := r.notes.doors()
	var all sync.WaitGroup
	room := make(chan struct{}, learnAtOnce)
	for _, id := range nodes {
		if d, ok := known[id]; ok && r.cfg.Now().Sub(d.Told) < addressAge {
			continue
		}
		known[id] = memory.Door{Told: r.cfg.Now()}
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			_, _ = r.find(ctx, client, id)
		})
	}
	all.Wait()
}
