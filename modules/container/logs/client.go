package logs

import (
	"context"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// Carrier speaks to one carrier process. When that has ended, Done is closed
// and all calls are node.Transient: Ensure gives another one, and Keeper does
// so by itself. Errors are node.Unknown when what was asked may have happened.
type Carrier struct {
	dir     carrier.Folder
	process *carrier.Process
	limits  limit.Elsewhere
}

// Ensure returns a client of the running carrier, or starts one. Several at
// the same time, also of several processes, start one. A carrier of another
// protocol or with other settings is replaced: nothing is lost.
// node.Transient when none answers in time.
func Ensure(ctx context.Context, c Config) (*Carrier, error) {
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	dir := folderOf(c.RunDir)
	replaced := false
	starter := carrier.Starter{Folder: dir, Command: c.Command, Within: c.Within, Log: c.Log, Find: func(ctx context.Context) (*carrier.Process, error) {
		process, info, err := find(ctx, dir)
		if err != nil || process == nil || c.fits(info) {
			return process, err
		}
		defer process.Close()
		if replaced {
			return nil, node.Errorf(node.Invalid, "cannot start the log carrier: its command gives it other settings than it should have")
		}
		replaced = true
		return nil, (&Carrier{dir: dir, process: process}).Stop(ctx)
	}}
	process, err := starter.Ensure(ctx)
	if err != nil {
		return nil, err
	}
	return &Carrier{dir: dir, process: process}, nil
}

// fits reports whether a carrier is as it should be.
func (c Config) fits(i Info) bool {
	return i.Protocol == protocol && i.Dir == filepath.Clean(c.Dir) && i.Size == c.Size && i.Files == c.Files
}

// find is the carrier that answers, nil when none does.
func find(ctx context.Context, dir carrier.Folder) (*carrier.Process, Info, error) {
	answer, pid, err := call(ctx, dir, request{Op: opInfo}, 0)
	if errors.Is(err, node.Refused) {
		return nil, Info{}, err
	}
	if err != nil || answer.Info == nil {
		return nil, Info{}, nil
	}
	process, err := carrier.Watch(pid)
	if err != nil {
		return nil, Info{}, nil // it ended just now
	}
	return process, *answer.Info, nil
}

// PID is the carrier's process ID.
func (c *Carrier) PID() int { return c.process.PID() }

// Done is closed when the process has ended.
func (c *Carrier) Done() <-chan struct{} { return c.process.Done() }

// Close lets go of what the client watches the process with. The carrier goes on.
func (c *Carrier) Close() { c.process.Close() }

// Memory is the carrier's RssAnon in bytes.
func (c *Carrier) Memory(ctx context.Context) (uint64, error) {
	info, err := c.Info(ctx)
	return info.Memory, err
}

// Info is what the carrier says of itself. How often it has reached its limits
// counts in this process, too.
func (c *Carrier) Info(ctx context.Context) (Info, error) {
	r, err := c.call(ctx, request{Op: opInfo})
	if err == nil && r.Info == nil {
		err = node.Errorf(node.Internal, "cannot ask the log carrier: its answer says nothing")
	}
	if err != nil {
		return Info{}, err
	}
	c.limits.Seen(r.Info.Limits)
	return *r.Info, nil
}

// Open makes the FIFOs of a container, or finds them, and reads them from now
// on. A container that is started again goes on in the same files. What it
// costs counts for user.
func (c *Carrier) Open(ctx context.Context, id, user string) (FIFOs, error) {
	r, err := c.call(ctx, request{Op: opOpen, ID: id, User: user})
	if err == nil && r.FIFOs == nil {
		err = node.Errorf(node.Internal, "cannot open the logs of %s: the carrier's answer says nothing", id)
	}
	if err != nil {
		return FIFOs{}, err
	}
	return *r.FIFOs, nil
}

// Drop writes what is left, removes the FIFOs, and the files too unless they
// are kept. What isn't there is no error.
func (c *Carrier) Drop(ctx context.Context, id string, keepFiles bool) error {
	_, err := c.call(ctx, request{Op: opDrop, ID: id, KeepFiles: keepFiles})
	return err
}

// List are the IDs of all containers whose FIFOs are read.
func (c *Carrier) List(ctx context.Context) ([]string, error) {
	r, err := c.call(ctx, request{Op: opList})
	return r.IDs, err
}

// Stop ends the carrier and returns when it has ended. FIFOs stay.
func (c *Carrier) Stop(ctx context.Context) error {
	group := cgroup.Of(c.PID(), c.dir.Group())
	if _, err := c.call(ctx, request{Op: opStop}); err != nil && !errors.Is(err, node.Transient) {
		return err
	}
	select {
	case <-c.Done():
		group.Remove()
		return nil
	case <-ctx.Done():
		return node.Errorf(node.Unknown, "cannot wait for the log carrier %d to end: %w", c.PID(), ctx.Err())
	}
}

// call asks one thing. Another process behind the socket isn't asked.
func (c *Carrier) call(ctx context.Context, r request) (response, error) {
	answer, pid, err := call(ctx, c.dir, r, c.PID())
	if err == nil && pid != c.PID() {
		err = node.Errorf(node.Transient, "cannot ask the log carrier %d: it has ended", c.PID())
	}
	return answer, err
}

func call(ctx context.Context, dir carrier.Folder, r request, only int) (answer response, pid int, err error) {
	r.Version = protocol
	pid, err = carrier.Call{Socket: dir.Socket(), What: r.Op, Request: r, MaxRequest: maxRequest, MaxAnswer: maxResponse, Only: only}.Do(ctx, &answer)
	if err == nil {
		err = answer.Error.Err()
	}
	return answer, pid, err
}

// TakeDown ends the carrier of a run folder, if there is one. FIFOs and files stay.
func TakeDown(ctx context.Context, c Config) error {
	dir := folderOf(c.RunDir)
	process, _, err := find(ctx, dir)
	if err != nil {
		return err
	}
	if process == nil {
		// One that was killed leaves its control groups.
		if group, err := cgroup.Beside(dir.Group()); err == nil {
			group.Remove()
		}
		return nil
	}
	defer process.Close()
	return (&Carrier{dir: dir, process: process}).Stop(ctx)
}
