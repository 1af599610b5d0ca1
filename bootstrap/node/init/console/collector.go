package console

import (
	"context"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/protobuf/client"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/croft-edge/croft/pkg/nodestatus"
	"github.com/croft-edge/croft/pkg/privatesocket"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/registry"
	"github.com/croft-edge/croft/pkg/statesocket"
	"github.com/croft-edge/croft/pkg/supervise"
)

const (
	// lookEvery is how often the node is asked, answerIn how long one answer may take.
	lookEvery = 5 * time.Second
	answerIn  = 3 * time.Second
	// contactFor is for how long the explorer's last answer is contact, as for the node's own check.
	contactFor = 5 * time.Minute
)

// Collector asks the running node over the socket of its state what it is. Whoever reads what it has found never waits for the node. It is
// safe for concurrent use.
type Collector struct {
	socket          string
	every, answerIn time.Duration
	log             zerolog.Logger

	mu   sync.Mutex
	node Node
}

// NewCollector makes a collector of the node that serves the socket.
func NewCollector(socket string, log zerolog.Logger) *Collector {
	return &Collector{socket: socket, every: lookEvery, answerIn: answerIn, log: log, node: Node{Since: time.Now(), Why: "it hasn't started yet"}}
}

// Node is what is known of the node.
func (c *Collector) Node() Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node
}

// Run asks the node again and again until ctx is done.
func (c *Collector) Run(ctx context.Context) error {
	return supervise.Keep(ctx, c.log, "the console's collector", supervise.DefaultBackoff(), c.collect)
}

func (c *Collector) collect(ctx context.Context) error {
	if err := registry.Register(); err != nil {
		return err
	}
	var conn connection
	defer conn.close()
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for {
		found, err := conn.ask(ctx, c.socket, c.answerIn)
		if ctx.Err() != nil {
			return nil
		}
		c.mu.Lock()
		if err != nil {
			c.node = c.node.silent(why(err, c.answerIn), time.Now())
		} else {
			c.node = c.node.answered(found, time.Now())
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// found is one answer of a node.
type found struct {
	status nodestatus.Status
	ready  host.ReadinessSpec
}

// connection is one to a node; nil while there is none.
type connection struct{ client *statesocket.Client }

// ask asks the node once. After a failure the next one connects anew.
func (c *connection) ask(ctx context.Context, socket string, within time.Duration) (out found, err error) {
	ctx, done := context.WithTimeout(ctx, within)
	defer done()
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.client == nil {
		if c.client, err = statesocket.Dial(ctx, socket, client.WithDisableWatchRetry()); err != nil {
			c.client = nil
			return out, err
		}
	}
	if out.status, err = nodestatus.ReadHealth(ctx, c.client); err != nil {
		return out, err
	}
	ready, err := safe.StateGetByID[*host.Readiness](ctx, c.client, host.Node)
	switch {
	case err == nil:
		out.ready = *ready.TypedSpec()
	case !state.IsNotFoundError(err):
		return out, err
	}
	return out, nil
}

func (c *connection) close() {
	if c.client != nil {
		_ = c.client.Close()
		c.client = nil
	}
}

// why is the reason of a failure in a few words.
func why(err error, within time.Duration) string {
	switch {
	case errors.Is(err, privatesocket.ErrNotRunning):
		return "its engine doesn't run"
	case errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded:
		return "it took longer than " + within.String() + " to answer"
	}
	return statesocket.Plain(err)
}

// silent is what is known of the node after it hasn't answered: what it is stays known, how it is doesn't.
func (n Node) silent(why string, now time.Time) Node {
	is := Node{Answer: n.Answer, Since: n.Since, Why: why, ID: n.ID, Version: n.Version, Farm: n.Farm, Explorer: n.Explorer}
	if n.Answer == Answering {
		is.Answer, is.Since = Silent, now
	}
	return is
}

// answered is what is known after an answer.
func (n Node) answered(f found, now time.Time) Node {
	s := f.status
	is := Node{
		Answer: Answering, Since: n.Since, ID: s.NodeID, Version: s.Version, Farm: s.Farm, Explorer: s.Explorer.URL,
		Contact: n.Contact.next(s.Explorer, now), Clock: Clock{s.Clock.Level, s.Clock.Source, s.Clock.Why}, Counters: s.Counters,
		Ready: f.ready.Ready, Checks: f.ready.Checks,
	}
	if n.Answer != Answering {
		is.Since = now
	}
	for _, p := range s.Storage.Pools {
		is.Pools = append(is.Pools, Pool{Name: p.Name, Type: string(p.DiskType), Total: p.Total, Free: p.Total - min(p.Used, p.Total)})
	}
	for _, p := range s.Storage.BrokenPools {
		is.Pools = append(is.Pools, Pool{Name: p.Name, Type: string(p.DiskType), Broken: p.Cause})
	}
	for _, d := range s.Storage.BrokenDevices {
		is.Pools = append(is.Pools, Pool{Name: d.Path, Broken: d.Cause})
	}
	return is
}

// next is the contact after the node has told of it. Its beginning is when it was first seen.
func (c Contact) next(e host.ExplorerSpec, now time.Time) Contact {
	is := Contact{Error: e.LastError}
	if e.LastContact != nil {
		is.Last = *e.LastContact
	}
	if e.LastError != "" || is.Last.IsZero() || now.Sub(is.Last) > contactFor {
		return is
	}
	if is.Since = c.Since; is.Since.IsZero() {
		is.Since = now
	}
	return is
}
