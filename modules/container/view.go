package container

import (
	"context"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/client"

	"github.com/croft-edge/croft/modules/container/managed"
	"github.com/croft-edge/croft/modules/container/plan"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/node"
)

// noRoot is the drift of a container that has no root file system.
const noRoot = "its root file system is gone"

// rootChecker compares root file systems with the specs they were made from.
type rootChecker interface {
	// Check is NotExist when there is no root file system.
	Check(id string) (drift string, err error)
	CheckAll() (map[string]string, error)
}

// viewer shows containers as they are: by containerd, their records and their root file systems.
type viewer struct {
	index tasks.Index
	table *managed.Table
	roots rootChecker
	// ended is called with a container that is seen not to run, though its record says so.
	ended func(id string)
}

// list returns all containers, without their last log lines.
func (v viewer) list(ctx context.Context) ([]node.ContainerInfo, error) {
	all, err := v.index.All(ctx)
	if err != nil {
		return nil, err
	}
	drifts, err := v.roots.CheckAll()
	if err != nil {
		return nil, err
	}
	out := make([]node.ContainerInfo, 0, len(all))
	for id, s := range all {
		drift, exists := drifts[id]
		if !exists {
			drift = noRoot
		}
		info := v.info(id, s, drift)
		info.LastLog = nil
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b node.ContainerInfo) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// inspect returns one container.
func (v viewer) inspect(ctx context.Context, id string) (node.ContainerInfo, error) {
	in, found, err := v.index.Find(ctx, id)
	if err != nil {
		return node.ContainerInfo{}, err
	}
	return v.inspectFound(in, found)
}

// inspectFound returns a container that was found. ctx has its user's namespace.
func (v viewer) inspectFound(ctx context.Context, found client.Container) (node.ContainerInfo, error) {
	t, status, err := tasks.Current(ctx, found)
	if err != nil {
		return node.ContainerInfo{}, err
	}
	return v.inspectTask(ctx, found, t, status)
}

// inspectTask returns a container whose task, nil for none, has a status. ctx has its user's namespace.
func (v viewer) inspectTask(ctx context.Context, found client.Container, t client.Task, status client.Status) (node.ContainerInfo, error) {
	s, err := tasks.StateOf(ctx, found, t, status)
	if err != nil {
		return node.ContainerInfo{}, err
	}
	drift, err := v.roots.Check(found.ID())
	if node.KindOf(err) == node.NotExist {
		drift, err = noRoot, nil
	}
	if err != nil {
		return node.ContainerInfo{}, err
	}
	return v.info(found.ID(), s, drift), nil
}

// info combines the state in containerd, the record, and the drift of the root file system.
func (v viewer) info(id string, s tasks.RuntimeState, drift string) node.ContainerInfo {
	r, known := v.table.Record(id)
	out := node.ContainerInfo{
		ID: id, User: s.Labels[plan.LabelUser], Hash: s.Labels[plan.LabelHash], Image: s.Labels[plan.LabelImage], Namespace: s.Labels[plan.LabelNamespace], Volumes: plan.Volumes(s.Labels),
		Restarts: r.Restarts, ExitCode: r.ExitCode, Ended: r.Ended, Next: r.Next, Cause: r.Cause, OOM: r.OOM, LastLog: r.LastLog, Drift: drift,
	}
	// A restart shows once it is recorded.
	running := s.Runs() && r.Next == 0
	if running {
		out.PID = uint64(s.PID)
	}
	switch {
	case !known:
		out.Drift = join(out.Drift, "its record is lost")
	case s.Paused():
		out.Drift = join(out.Drift, "it is paused")
	case r.Wanted && !s.Runs() && r.Next == 0:
		v.ended(id) // just now; its event may be missed
	}
	switch {
	case running && out.Drift == "":
		out.State = node.ContainerRunning
	case out.Drift != "":
		out.State = node.ContainerBroken
	case r.Wanted:
		out.State = node.ContainerWaiting
	default:
		out.State = node.ContainerCreated
	}
	return out
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
