package carrier

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/node"
)

// Config is what Ensure needs.
type Config struct {
	// RunDir is the node's folder of sockets: {run}.
	RunDir string
	// Command starts a carrier for RunDir: the path of a program and its
	// arguments, such as "/proc/self/exe carrier wg --run-dir {run}".
	Command []string
	// Within is how long a new carrier may take until it answers; 0 for 10 s.
	Within time.Duration
	Log    zerolog.Logger
}

// Ensure returns a client of the running carrier, or starts one. Several at
// the same time, also of several processes, start one. A carrier of another
// protocol is replaced: its links stay. node.Transient when none answers in time.
func Ensure(ctx context.Context, c Config) (*Client, error) {
	dir := folderOf(c.RunDir)
	starter := carrier.Starter{Folder: dir, Command: c.Command, Within: c.Within, Log: c.Log, Find: func(ctx context.Context) (*carrier.Process, error) {
		client, err := find(ctx, dir)
		if client == nil {
			return nil, err
		}
		return client.process, err
	}}
	process, err := starter.Ensure(ctx)
	if err != nil {
		return nil, err
	}
	return &Client{dir: dir, process: process}, nil
}

// find is a client of the carrier that answers, nil when none does. One that
// speaks another protocol is stopped.
func find(ctx context.Context, dir carrier.Folder) (*Client, error) {
	answer, pid, err := call(ctx, dir, request{Op: opInfo}, 0)
	if errors.Is(err, node.Refused) {
		return nil, err
	}
	if err != nil || answer.Info == nil {
		return nil, nil
	}
	process, err := carrier.Watch(pid)
	if err != nil {
		return nil, nil // it ended just now
	}
	client := &Client{dir: dir, process: process}
	if answer.Info.Protocol == protocol {
		return client, nil
	}
	defer client.Close()
	return nil, client.Stop(ctx)
}
