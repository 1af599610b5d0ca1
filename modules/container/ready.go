package container

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/logs"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/pkg/node"
)

// A start has two parts. The first one makes the task: the shim, the control
// groups, the container's mounts, and runc's own process that waits in them. It
// takes most of the time and needs the container's namespaces, but nothing in
// them. Create begins it beside, so that the container joins its network
// meanwhile. The second part lets the container's program run.

// footing is what a task is made on.
type footing struct {
	container client.Container
	made      rootfs.Made
	process   *specs.Process
	fifos     logs.FIFOs
}

// waiting is a task that was made and isn't started yet, and its process.
type waiting struct {
	container client.Container
	task      client.Task
	pid       uint32
}

// getReady makes the container's task beside, and releases the item when it is
// done. It is only ahead of its time: what fails is done again by Start, which
// tells why. stands is nil when the container wasn't made just now.
func (m *Module) getReady(it *item, stands *footing) {
	begun := m.spawn(func(ctx context.Context) {
		defer m.release(it)
		ctx, cancel := context.WithTimeout(ctx, changeTime)
		defer cancel()
		if err := m.stageIfIdle(ctx, it, stands); err != nil {
			m.cfg.Log.Debug().Err(err).Str("id", it.id).Str("type", "container").Str("step", "ready").Msg("a container can't be made ready to start")
		}
	})
	if !begun {
		m.letGo(it.id)
		m.release(it)
	}
}

// stageIfIdle makes the task of a container that nobody has started.
func (m *Module) stageIfIdle(ctx context.Context, it *item, stands *footing) error {
	r, known := m.recordOf(it.id)
	if !known || r.Wanted {
		return nil
	}
	if stands != nil {
		_, err := m.stage(m.daemon.Namespace(ctx, r.User), it, stands.container, stands)
		return err
	}
	in, found, err := load(ctx, m.daemon, r.User, it.id)
	if err != nil {
		return err
	}
	t, status, err := task(in, found)
	if err != nil || t != nil && (status.Status != client.Created || it.ready.pid == t.Pid()) {
		return err
	}
	if t != nil {
		if err := drop(in, t); err != nil {
			return err
		}
	}
	_, err = m.stage(in, it, found, nil)
	return err
}

// stage makes a container's task. The item is held, and there is no task yet.
// Nothing of it is left when it fails. stands is nil when what the container
// stands on is to be looked at first. Whatever becomes of it, the container's root
// is let go.
func (m *Module) stage(ctx context.Context, it *item, c client.Container, stands *footing) (client.Task, error) {
	it.ready = waiting{}
	r, _ := m.recordOf(it.id)
	t, err := m.makeTask(ctx, it, c, r, stands)
	if err != nil {
		m.letGo(it.id)
		return nil, err
	}
	// From here on the container has a copy of its own of all its mounts.
	if err := m.roots.HandOver(ctx, it.id); err != nil {
		m.dropAfter(ctx, c, r.User)
		m.letGo(it.id)
		return nil, err
	}
	m.throttle(r)
	it.ready = waiting{container: c, task: t, pid: t.Pid()}
	return t, nil
}

// letGo lets go of the root of a container that isn't made: it holds all that was mounted on the
// node when it was.
func (m *Module) letGo(id string) {
	if err := m.roots.LetGo(id); err != nil {
		m.cfg.Log.Error().Err(err).Str("id", id).Str("type", "container").Msg("a container's root can't be let go")
	}
}

// makeTask is stage without what follows.
func (m *Module) makeTask(ctx context.Context, it *item, c client.Container, r record, stands *footing) (client.Task, error) {
	clear := m.cleared
	if stands == nil {
		clear = m.clearLeft
		if drift, err := m.roots.Check(it.id); err != nil || drift != "" {
			return nil, node.Errorf(node.Transient, "cannot start container %s: it isn't as it was made, create it again (%s%v)", it.id, drift, orNothing(err))
		}
	}
	if err := clear(ctx, r.User, it.id); err != nil {
		return nil, err
	}
	select {
	case m.launches <- struct{}{}:
		// One that takes long waits for something, such as a file that another container holds.
		done := sync.OnceFunc(func() { <-m.launches })
		defer time.AfterFunc(launchTurn, done).Stop()
		defer done()
	case <-ctx.Done():
		return nil, node.Errorf(node.Transient, "cannot start container %s: others are being started (%w)", it.id, ctx.Err())
	}
	if stands == nil {
		var err error
		if stands, err = m.stand(ctx, c, r); err != nil {
			return nil, err
		}
	}
	err := m.roots.Within(it.id, func(root string) error {
		return startable(root, stands.made.Range, r.Root, stands.process)
	})
	if err != nil {
		return nil, err
	}
	began := time.Now()
	t, err := m.newTask(ctx, c, r.User, pipes(stands.fifos))
	if err != nil {
		m.dropAfter(ctx, c, r.User)
		return nil, startError(err, it.id)
	}
	m.took(it.id, "task", began)
	return t, nil
}

// stand makes right what a container stands on that was made before.
func (m *Module) stand(ctx context.Context, c client.Container, r record) (*footing, error) {
	made, err := m.roots.Make(ctx, r.Root)
	if err != nil {
		return nil, err
	}
	built, err := c.Spec(ctx)
	if err != nil {
		return nil, containerd.Error(err, "read what container %s is", r.ID)
	}
	fifos, err := m.outputs.Open(ctx, r.ID, r.User)
	if err != nil {
		return nil, err
	}
	return &footing{container: c, made: made, process: built.Process, fifos: fifos}, nil
}

// begin lets the program of a container's task run, and remembers it. Nothing of
// the task is left when it fails.
func (m *Module) begin(ctx context.Context, it *item, c client.Container, t client.Task) error {
	it.ready = waiting{}
	r, _ := m.recordOf(it.id)
	began := time.Now()
	if err := startError(t.Start(ctx), it.id); err != nil {
		m.dropAfter(ctx, c, r.User)
		return err
	}
	m.took(it.id, "start", began)
	r.start(time.Now())
	return m.keep(it, r)
}
