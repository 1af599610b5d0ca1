package container

import (
	"context"
	"os"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/logs"
	"github.com/croft-edge/croft/pkg/node"
)

// Streams are a container's outputs and inputs, for who speaks to its owner.
// They need no Module: any process of the node can open them beside it.
type Streams struct {
	cfg       Config
	daemon    connection
	followers *logs.Followers
}

// LogOptions say which log lines are wanted.
type LogOptions struct {
	// Tail is how many of the last lines come first.
	Tail int
	// Follow is whether those to come are wanted, too.
	Follow bool
}

// OpenStreams opens the streams of the containers of a Module with the same
// Config. What earlier processes have left of execs is ended.
func OpenStreams(c Config) (*Streams, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if err := os.MkdirAll(c.execs(), 0o711); err != nil {
		return nil, node.Errorf(node.Internal, "cannot make the folder of execs: %w", err)
	}
	d, err := containerd.Open(context.Background(), c.Containerd)
	if err != nil {
		return nil, err
	}
	return &Streams{cfg: c, daemon: d, followers: logs.NewFollowers()}, nil
}

// Close lets go of containerd. What is being streamed ends with its context.
func (s *Streams) Close() error { return s.daemon.Close() }

// Owner is the user of a container. NotExist when there is none.
func (s *Streams) Owner(ctx context.Context, id string) (string, error) {
	return s.cfg.owner(ctx, s.daemon, id)
}

// Logs gives f the lines of a container's output, oldest first, until f fails
// or ctx is done, which is no failure; without Follow, until there is no more.
// NotExist when there is no such container.
func (s *Streams) Logs(ctx context.Context, id string, o LogOptions, f func(node.LogLine) error) error {
	user, err := s.cfg.owner(ctx, s.daemon, id)
	if err != nil {
		return err
	}
	tail := min(max(o.Tail, 0), mostLines)
	if o.Follow {
		return s.followers.Follow(ctx, logs.Log{Dir: s.cfg.Logs.Dir, ID: id, User: user}, tail, f)
	}
	// Line by line: who doesn't read them holds none in memory.
	said := false
	err = logs.Each(ctx, s.cfg.Logs.Dir, id, tail, func(line node.LogLine) error {
		said = true
		return f(line)
	})
	if node.KindOf(err) == node.NotExist && !said {
		return nil // it never said anything
	}
	return err
}

// Stats reads a container's present use. NotExist when there is none, Busy
// while it doesn't run.
func (s *Streams) Stats(ctx context.Context, id string) (node.ContainerStats, error) {
	return s.cfg.stats(ctx, s.daemon, id)
}
