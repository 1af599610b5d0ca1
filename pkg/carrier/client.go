package carrier

import (
	"context"
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/node"
)

// Config configures how a carrier is found and started.
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

// Client speaks to one carrier process. When that has ended, Done is closed
// and all calls are node.Transient: Ensure returns another one.
//
// Errors have the kinds of the operation's own; node.Transient when it certainly
// didn't happen, node.Unknown when it may have.
type Client struct {
	kind    Kind
	folder  Folder
	process *Process
	started bool
}

// Ensure returns a client of the running carrier, or starts one. Several at
// the same time, also of several processes, start one. fits reports whether a
// carrier can be used, by its kind's Info; one that doesn't fit is stopped and
// replaced. node.Transient when none answers in time.
func Ensure[I any](ctx context.Context, k Kind, c Config, fits func(I) (bool, error)) (*Client, error) {
	folder := k.Folder(c.RunDir)
	find := func(ctx context.Context) (*Process, error) {
		client, info, err := find[I](ctx, k, folder)
		if err != nil || client == nil {
			return nil, err
		}
		ok, err := fits(info)
		if ok && err == nil {
			return client.process, nil
		}
		defer client.Close()
		if err != nil {
			return nil, err
		}
		return nil, client.Stop(ctx)
	}
	process, started, err := Starter{Folder: folder, Command: c.Command, Within: c.Within, Log: c.Log, Find: find}.Ensure(ctx)
	if err != nil {
		return nil, err
	}
	return &Client{kind: k, folder: folder, process: process, started: started}, nil
}

// find returns a client of the running carrier, nil when none answers.
func find[I any](ctx context.Context, k Kind, folder Folder) (client *Client, info I, err error) {
	var answer infoAnswer[I]
	pid, err := call{kind: k, folder: folder, op: opInfo, request: Nothing{}}.do(ctx, &answer)
	if errors.Is(err, node.Refused) {
		return nil, info, err
	}
	if err != nil || answer.Info == nil {
		return nil, info, nil
	}
	process, err := Watch(pid)
	if err != nil {
		return nil, info, nil // it has just ended
	}
	return &Client{kind: k, folder: folder, process: process}, *answer.Info, nil
}

// End ends the carrier of a run folder, of any protocol, if there is one. It waits for one
// that is starting. node.Transient or Unknown, and the carrier is left, when it doesn't answer
// or end in time.
func End(ctx context.Context, k Kind, runDir string) error {
	folder := k.Folder(runDir)
	ctx, cancel := context.WithTimeout(ctx, defaultWithin)
	defer cancel()
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	for {
		client, _, err := find[Info](ctx, k, folder)
		if err != nil {
			return err
		}
		if client != nil {
			defer client.Close()
			return client.Stop(ctx)
		}
		lock, err := filelock.Try(folder.Lock())
		switch {
		case errors.Is(err, os.ErrNotExist): // nor was there ever one
			return nil
		case err == nil:
			defer func() { _ = lock.Release() }() // none starts meanwhile
			// A killed carrier leaves its control groups.
			if group, err := cgroup.Beside(folder.Group()); err == nil {
				group.Remove()
			}
			return nil
		case filelock.Held(err) == nil:
			return err
		}
		select {
		case <-ctx.Done():
			return node.Errorf(node.Transient, "cannot end the %s of %s: it doesn't answer (%w)", k.Title, folder, err)
		case <-tick.C:
		}
	}
}

// Ask makes one request, and returns the document of its answer. Another process
// behind the socket isn't asked.
func Ask[A any](ctx context.Context, c *Client, op string, request any) (answer A, err error) {
	pid, err := call{kind: c.kind, folder: c.folder, op: op, request: request, only: c.PID()}.do(ctx, &answer)
	if err == nil && pid != c.PID() {
		err = node.Errorf(node.Transient, "cannot ask the %s %d: it has ended", c.kind.Title, c.PID())
	}
	return answer, err
}

// AskInfo asks the carrier about itself; I is its kind's Info.
func AskInfo[I any](ctx context.Context, c *Client) (info I, err error) {
	answer, err := Ask[infoAnswer[I]](ctx, c, opInfo, Nothing{})
	if err == nil && answer.Info == nil {
		err = node.Errorf(node.Internal, "cannot ask the %s: its answer is empty", c.kind.Title)
	}
	if err != nil {
		return info, err
	}
	return *answer.Info, nil
}

// PID is the carrier's process ID.
func (c *Client) PID() int { return c.process.PID() }

// Started reports whether Ensure started the carrier: it is empty, or was then.
func (c *Client) Started() bool { return c.started }

// Done is closed when the process has ended.
func (c *Client) Done() <-chan struct{} { return c.process.Done() }

// Close ends the client's watch of the process. The carrier goes on.
func (c *Client) Close() { c.process.Close() }

// Stop ends the carrier and returns when it has ended.
func (c *Client) Stop(ctx context.Context) error {
	group := cgroup.Of(c.PID(), c.folder.Group())
	if _, err := Ask[Nothing](ctx, c, opStop, Nothing{}); err != nil && !errors.Is(err, node.Transient) {
		return err
	}
	select {
	case <-c.Done():
		group.Remove()
		return nil
	case <-ctx.Done():
		return node.Errorf(node.Unknown, "cannot wait for the %s %d to end: %w", c.kind.Title, c.PID(), ctx.Err())
	}
}
