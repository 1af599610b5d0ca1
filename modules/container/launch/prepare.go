package launch

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/managed"
	"github.com/croft-edge/croft/modules/container/plan"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

// prepare makes the task of a container that has none, in a root that it lets go of in any case.
// Nothing of the task is left when it fails. fresh is nil when the parts of the container are
// to be checked first.
func (l *Launcher) prepare(ctx context.Context, held *managed.Container, c client.Container, fresh *Fresh) (client.Task, error) {
	held.Prepared = managed.PreparedTask{}
	r, _ := l.cfg.Records.Record(held.ID)
	t, err := l.makeTask(ctx, c, r, fresh)
	if err != nil {
		l.LetGo(held.ID)
		return nil, err
	}
	// From here on the container has its own copy of all its mounts.
	if err := l.cfg.RootFS.HandOver(ctx, held.ID); err != nil {
		l.undo(ctx, c, r.User)
		l.LetGo(held.ID)
		return nil, err
	}
	l.throttle(r)
	held.Prepared = managed.PreparedTask{Container: c, Task: t, PID: t.Pid()}
	return t, nil
}

// LetGo unmounts the root of a container that isn't being made: it would hold all mounts that the
// node had when it was mounted.
func (l *Launcher) LetGo(id string) {
	if err := l.cfg.RootFS.LetGo(id); err != nil {
		l.cfg.Log.Error().Str("id", id).Str("type", "container").Str("step", "undo").Err(err).Msg("cannot let go of a container's root")
	}
}

// makeTask is prepare up to the task.
func (l *Launcher) makeTask(ctx context.Context, c client.Container, r managed.Record, fresh *Fresh) (client.Task, error) {
	id, clear := c.ID(), l.cfg.Leftovers.ClearNew
	if fresh == nil {
		clear = l.cfg.Leftovers.Clear
		if drift, err := l.cfg.RootFS.Check(id); err != nil || drift != "" {
			return nil, node.Errorf(node.Transient, "cannot start container %s: its root has changed since it was made, create it again (%s%v)", id, drift, textOf(err))
		}
	}
	if err := clear(ctx, r.User, id); err != nil {
		return nil, err
	}
	done, err := l.turn(ctx, id)
	if err != nil {
		return nil, err
	}
	defer done()
	if fresh == nil {
		if fresh, err = l.refresh(ctx, c, r); err != nil {
			return nil, err
		}
	}
	err = l.cfg.RootFS.Within(id, func(root string) error {
		return plan.CheckStartable(root, fresh.Root.Range, r.Root, fresh.Process)
	})
	if err != nil {
		return nil, err
	}
	if err := l.confine(ctx, c, fresh.Process); err != nil {
		return nil, err
	}
	began := time.Now()
	t, err := l.newTask(ctx, c, r.User, pipes(fresh.FIFOs))
	if err != nil {
		l.undo(ctx, c, r.User)
		return nil, tasks.StartError(err, id)
	}
	tasks.LogTime(l.cfg.Log, id, "task", began)
	return t, nil
}

// confine makes the AppArmor profile ready that the container's first process gets, and changes the container where it was made for another: since
// then the machine may have got AppArmor, or lost it.
func (l *Launcher) confine(ctx context.Context, c client.Container, process *specs.Process) error {
	profile, err := l.cfg.Profile.Ready()
	if err != nil {
		return node.Errorf(node.Transient, "cannot start container %s: %w", c.ID(), err)
	}
	if process.ApparmorProfile == profile {
		return nil
	}
	built, err := c.Spec(ctx)
	if err == nil {
		built.Process.ApparmorProfile = profile
		err = c.Update(ctx, client.UpdateContainerOpts(client.WithSpec(built)))
	}
	if err != nil {
		return containerd.Error(err, "change the AppArmor profile of container %s from %q to %q", c.ID(), process.ApparmorProfile, profile)
	}
	process.ApparmorProfile = profile
	return nil
}

// turn waits until few enough tasks are being made. done gives the turn to the next; it is
// given away after turnTime: a start that hangs, such as on a file that another container holds,
// must not keep others waiting.
func (l *Launcher) turn(ctx context.Context, id string) (done func(), err error) {
	select {
	case l.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, node.Errorf(node.Transient, "cannot start container %s: others are being started (%w)", id, ctx.Err())
	}
	leave := sync.OnceFunc(func() { <-l.turns })
	late := time.AfterFunc(turnTime, leave)
	return func() {
		leave()
		late.Stop()
	}, nil
}

// refresh mounts the root of a container that was made earlier, and opens its output.
func (l *Launcher) refresh(ctx context.Context, c client.Container, r managed.Record) (*Fresh, error) {
	made, err := l.cfg.RootFS.Make(ctx, r.Root)
	if err != nil {
		return nil, err
	}
	built, err := c.Spec(ctx)
	if err != nil {
		return nil, containerd.Error(err, "read the metadata of container %s", r.ID)
	}
	fifos, err := l.cfg.Outputs.Open(ctx, r.ID, r.User)
	if err != nil {
		return nil, err
	}
	return &Fresh{Container: c, Root: made, Process: built.Process, FIFOs: fifos}, nil
}

// throttle limits a container, in which nothing of its image runs yet, to the rates on the disks
// of its layer and volumes. The node's own containers, zdb's, serve many users and have no rates.
func (l *Launcher) throttle(r managed.Record) {
	if l.cfg.Rate == (cgroup.Rate{}) || r.User == node.OwnUser {
		return
	}
	paths := []string{r.Root.Layer}
	for _, b := range r.Root.Binds {
		paths = append(paths, b.Source)
	}
	l.cfg.Groups.Throttle(r.ID, l.cfg.Rate, paths)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
