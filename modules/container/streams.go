package container

import (
	"context"
	"os"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/execs"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
)

// Streams are containers' outputs and inputs for their owners. They need no Module: any process of the
// node can open them beside it.
type Streams struct {
	index     tasks.Index
	execs     execs.Runner
	logDir    string
	followers *logs.Followers
	close     func() error
}

// LogOptions say which log lines are wanted.
type LogOptions struct {
	// Tail is how many of the last lines come first.
	Tail int
	// Follow is whether those to come are wanted, too.
	Follow bool
}

// OpenStreams opens the streams of the containers of a Module with the same
// Config. One Followers is enough for a process.
func OpenStreams(c Config, followers *logs.Followers) (*Streams, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if err := os.MkdirAll(c.execs().Dir, 0o711); err != nil {
		return nil, node.Errorf(node.Internal, "cannot make the folder of execs: %w", err)
	}
	d, err := containerd.Open(context.Background(), c.Containerd)
	if err != nil {
		return nil, err
	}
	return newStreams(c, d, followers), nil
}

// newStreams makes Streams of a Config with its defaults.
func newStreams(c Config, d *containerd.Daemon, followers *logs.Followers) *Streams {
	return &Streams{index: c.index(d), execs: c.execs(), logDir: c.Logs.Dir, followers: followers, close: d.Close}
}

// Close lets go of containerd. Streams that are open end with their contexts.
func (s *Streams) Close() error { return s.close() }

// Owner is the user of a container. NotExist when there is none.
func (s *Streams) Owner(ctx context.Context, id string) (string, error) {
	return s.index.User(ctx, id)
}

// Exec runs a program in a container that runs, with the rights of its first
// process, and returns its exit code. It is killed when ctx is done.
//
// NotExist when there is no such container, Busy while it doesn't run, Invalid
// when the program can't be started.
func (s *Streams) Exec(ctx context.Context, id string, o execs.Options, streams execs.Streams) (uint32, error) {
	if err := o.Validate(id); err != nil {
		return 0, err
	}
	in, found, err := s.index.Find(ctx, id)
	if err != nil {
		return 0, err
	}
	return s.execs.Run(in, found, o, streams)
}

// Logs gives f the lines of a container's output, oldest first, until f fails
// or ctx is done, which is no failure; without Follow, until there is no more.
// NotExist when there is no such container.
func (s *Streams) Logs(ctx context.Context, id string, o LogOptions, f func(node.LogLine) error) error {
	user, err := s.index.User(ctx, id)
	if err != nil {
		return err
	}
	tail := min(max(o.Tail, 0), mostLines)
	return s.followers.Read(ctx, logs.Log{Dir: s.logDir, ID: id, User: user}, tail, o.Follow, f)
}

// Stats reads a container's present use. NotExist when there is none, Busy
// while it doesn't run.
func (s *Streams) Stats(ctx context.Context, id string) (node.ContainerStats, error) {
	return s.index.Stats(ctx, id)
}
