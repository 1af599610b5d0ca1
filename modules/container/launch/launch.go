package launch

import (
	"context"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/groups"
	"github.com/croft-edge/croft/modules/container/leftovers"
	"github.com/croft-edge/croft/modules/container/managed"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// MostAtOnce is how many tasks are made at the same time: more make all of them slower.
	MostAtOnce = 4
	// turnTime is how long the making of one keeps others waiting at most.
	turnTime = 5 * time.Second
	// undoTime bounds the undoing of a failed start, also when its call's context is done.
	undoTime = 30 * time.Second
)

// RootFS is the store of root file systems.
type RootFS interface {
	Make(ctx context.Context, spec rootfs.Spec) (rootfs.Made, error)
	Check(id string) (drift string, err error)
	Within(id string, fn func(root string) error) error
	HandOver(ctx context.Context, id string) error
	LetGo(id string) error
}

// Outputs are where containers' output goes.
type Outputs interface {
	Open(ctx context.Context, id, user string) (logs.FIFOs, error)
}

// Records are the containers' records.
type Records interface {
	Record(id string) (managed.Record, bool)
	Keep(c *managed.Container, r managed.Record) error
}

// Profile is the AppArmor profile of containers.
type Profile interface {
	// Ready loads it where the kernel has it no more, and returns its name, empty where containers get none.
	Ready() (name string, err error)
}

// Config configures a Launcher.
type Config struct {
	Daemon    tasks.Daemon
	RootFS    RootFS
	Outputs   Outputs
	Records   Records
	Leftovers leftovers.Cleaner
	Groups    groups.Groups
	Runtime   Runtime
	Profile   Profile
	// Rate limits a user's container's use of each disk in a second.
	Rate cgroup.Rate
	Log  zerolog.Logger
}

// Launcher makes and starts the tasks of containers. Its methods are for the holder of the
// container.
type Launcher struct {
	cfg Config
	// turns holds a token for each task that is being made.
	turns chan struct{}
}

// New makes a Launcher.
func New(c Config) *Launcher {
	return &Launcher{cfg: c, turns: make(chan struct{}, MostAtOnce)}
}

// Busy is how many tasks are being made.
func (l *Launcher) Busy() int { return len(l.turns) }

// Fresh are the parts of a container that was made just now.
type Fresh struct {
	Container client.Container
	Root      rootfs.Made
	Process   *specs.Process
	FIFOs     logs.FIFOs
}

// Prepare makes the task of a container that nobody has started. fresh is nil when the container
// wasn't made just now.
func (l *Launcher) Prepare(ctx context.Context, held *managed.Container, fresh *Fresh) error {
	r, known := l.cfg.Records.Record(held.ID)
	if !known || r.Wanted {
		return nil
	}
	if fresh != nil {
		_, err := l.prepare(l.cfg.Daemon.Namespace(ctx, r.User), held, fresh.Container, fresh)
		return err
	}
	in, found, err := tasks.Load(ctx, l.cfg.Daemon, r.User, held.ID)
	if err != nil {
		return err
	}
	t, status, err := tasks.Current(in, found)
	if err != nil || t != nil && (status.Status != client.Created || held.Prepared.PID == t.Pid()) {
		return err
	}
	if t != nil {
		if err := tasks.Drop(in, t); err != nil {
			return err
		}
	}
	_, err = l.prepare(in, held, found, nil)
	return err
}

// Run makes a container run. ctx has the user's namespace.
func (l *Launcher) Run(ctx context.Context, held *managed.Container, c client.Container) error {
	t, status, err := tasks.Current(ctx, c)
	if err != nil {
		return err
	}
	if t != nil {
		if done, err := l.resume(ctx, held, c, t, status.Status); done || err != nil {
			return err
		}
	}
	t, err = l.prepare(ctx, held, c, nil)
	if err == nil {
		err = l.start(ctx, held, c, t)
	}
	return err
}

// RunPrepared starts the prepared task, without asking containerd about the container. ctx has the
// user's namespace.
func (l *Launcher) RunPrepared(ctx context.Context, held *managed.Container) (client.Status, error) {
	p := held.Prepared
	if err := l.start(ctx, held, p.Container, p.Task); err != nil {
		return client.Status{}, err
	}
	status, err := p.Task.Status(ctx)
	if containerd.Kind(err) == node.NotExist || err == nil {
		return status, nil
	}
	return client.Status{}, containerd.Error(err, "look at the task of container %s", held.ID)
}

// resume makes a task that exists run, and reports whether it runs. A task that can't run is
// removed.
func (l *Launcher) resume(ctx context.Context, held *managed.Container, c client.Container, t client.Task, status client.ProcessStatus) (running bool, err error) {
	r, _ := l.cfg.Records.Record(held.ID)
	switch {
	case status == client.Paused || status == client.Running:
		if status == client.Paused {
			if err := t.Resume(ctx); err != nil {
				return false, containerd.Error(err, "let container %s go on", held.ID)
			}
		}
		if r.Wanted && r.Next == 0 {
			return true, nil
		}
		return true, l.cfg.Records.Keep(held, managed.AfterStart(r, time.Now()))
	case status == client.Created && held.Prepared.PID == t.Pid():
		// It may have ended while it waited: only the image's faults would happen again.
		if err := l.start(ctx, held, c, t); err == nil || node.KindOf(err).Final() {
			return true, err
		}
		return false, nil
	}
	return false, tasks.Drop(ctx, t)
}

// start lets the program of a container's task run, and records that. Nothing of
// the task is left when it fails.
func (l *Launcher) start(ctx context.Context, held *managed.Container, c client.Container, t client.Task) error {
	held.Prepared = managed.PreparedTask{}
	r, _ := l.cfg.Records.Record(held.ID)
	began := time.Now()
	if err := tasks.StartError(t.Start(ctx), held.ID); err != nil {
		l.undo(ctx, c, r.User)
		return err
	}
	tasks.LogTime(l.cfg.Log, held.ID, "start", began)
	return l.cfg.Records.Keep(held, managed.AfterStart(r, time.Now()))
}

// undo removes what a failed start has left.
func (l *Launcher) undo(ctx context.Context, c client.Container, user string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	t, _, err := tasks.Current(ctx, c)
	if err == nil && t != nil {
		err = tasks.Drop(ctx, t)
	}
	if err == nil {
		err = l.cfg.Leftovers.Clear(ctx, user, c.ID())
	}
	if err != nil {
		l.cfg.Log.Warn().Str("id", c.ID()).Str("type", "container").Str("step", "undo").Err(err).Msg("cannot clean up after a failed start: tried again later")
	}
}

// newTask makes a container's task, also where a containerd that isn't croft's
// own has left a bundle in its way.
func (l *Launcher) newTask(ctx context.Context, c client.Container, user string, output pipes) (client.Task, error) {
	attach := func(string) (cio.IO, error) { return output, nil }
	// In containerd a container is one of plain runc: the wrapper is this croft's own affair.
	options := func(_ context.Context, _ *client.Client, t *client.TaskInfo) error {
		t.Options = l.cfg.Runtime.Options(l.cfg.Runtime.Wrapper)
		return nil
	}
	t, err := c.NewTask(ctx, attach, options)
	found, clearErr := l.cfg.Leftovers.ClearBundle(ctx, err, user, c.ID())
	switch {
	case !found:
		return t, err
	case clearErr != nil:
		return nil, clearErr
	}
	return c.NewTask(ctx, attach, options)
}
