// Package leftovers removes from containerd the remains of broken containers: tasks that a
// containerd was making when it was killed or the making was cancelled, their bundles (the folder of a task, in which its shim
// runs), the processes of both, and the empty namespaces of users.
//
// It owns nothing.
package leftovers

import (
	"context"
	"os"
	"path/filepath"
	"time"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/groups"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

// Daemon is the containerd in use.
type Daemon interface {
	tasks.Daemon
	NamespaceName(user string) string
	// Bundle is the folder of a container's task; empty where that isn't known.
	Bundle(user, id string) string
}

// Cleaner removes leftovers.
type Cleaner struct {
	Daemon Daemon
	Groups groups.Groups
	// RuncDir is the folder of runc's state.
	RuncDir string
	Log     zerolog.Logger
}

// Clear removes the remains of a container's earlier start that no task shows: they would prevent
// the next start. ctx has the user's namespace.
func (c Cleaner) Clear(ctx context.Context, user, id string) error {
	if err := c.dropTask(ctx, id); err != nil {
		return err
	}
	if bundle := c.Daemon.Bundle(user, id); bundle != "" {
		if err := c.dropBundle(ctx, bundle, user, id); err != nil {
			return err
		}
	}
	return c.Groups.End(ctx, id)
}

// ClearNew is Clear for a container that was added to containerd just now. It asks containerd only
// where there is a bundle, or where that can't be seen.
func (c Cleaner) ClearNew(ctx context.Context, user, id string) error {
	bundle := c.Daemon.Bundle(user, id)
	if bundle == "" {
		return c.Clear(ctx, user, id)
	}
	if _, err := os.Lstat(bundle); !os.IsNotExist(err) {
		return c.Clear(ctx, user, id)
	}
	return c.Groups.End(ctx, id)
}

// dropTask removes a task whose shim containerd was starting when it was killed. The next
// containerd has it, but doesn't show it.
func (c Cleaner) dropTask(ctx context.Context, id string) error {
	to, err := c.Daemon.Client(ctx)
	if err != nil {
		return err
	}
	_, err = to.TaskService().Delete(ctx, &tasksapi.DeleteTaskRequest{ContainerID: id})
	if err != nil && containerd.Kind(err) != node.NotExist {
		return containerd.Error(err, "remove the half-made task of container %s", id)
	}
	return nil
}

// ClearBundle removes the bundle that is in the way of a task, if err, containerd's answer to the making
// of the task, names it. It reports whether it does: the task may be made again then.
func (c Cleaner) ClearBundle(ctx context.Context, err error, user, id string) (bool, error) {
	bundle := bundleIn(err, c.Daemon.NamespaceName(user), id)
	if bundle == "" {
		return false, nil
	}
	return true, c.dropBundle(ctx, bundle, user, id)
}

// dropBundle removes the bundle of a task that containerd doesn't know, and ends the shim that
// runs in it, or ran in it until containerd removed it, and the processes that the shim has started.
func (c Cleaner) dropBundle(ctx context.Context, bundle, user, id string) error {
	_, err := os.Lstat(bundle)
	removed := os.IsNotExist(err)
	var grace time.Duration
	if removed {
		grace = exitTime
	}
	killed, err := killIn(ctx, bundle, grace)
	if killed || !removed {
		c.Log.Warn().Str("id", id).Str("type", "container").Str("step", "clean").Bool("processes", killed).Bool("bundle", !removed).
			Msg("removing the leftovers of a task that containerd doesn't know")
	}
	if err != nil {
		return err
	}
	if removed && !killed {
		return nil
	}
	if err := c.Groups.End(ctx, id); err != nil {
		return err
	}
	mounted, err := mounts.Read()
	if err != nil {
		return node.WithKind(node.Transient, err)
	}
	if left := mounted.Within(bundle); len(left) > 0 {
		return node.Errorf(node.Transient, "cannot remove %s: something is mounted there", bundle)
	}
	err = remove(ctx, bundle)
	if err == nil {
		err = os.RemoveAll(filepath.Join(c.RuncDir, c.Daemon.NamespaceName(user), id))
	}
	if err != nil {
		return node.Errorf(node.Transient, "cannot remove the half-made task of container %s: %w", id, err)
	}
	return nil
}

// ClearNamespace removes a user's empty namespace. containerd refuses to remove one that
// isn't empty, but ignores leases; a lease means that something is about to be put in.
func (c Cleaner) ClearNamespace(ctx context.Context, user string) {
	to, err := c.Daemon.Client(ctx)
	if err != nil {
		return
	}
	name := c.Daemon.NamespaceName(user)
	in := c.Daemon.Namespace(ctx, user)
	if leases, err := to.LeasesService().List(in); err != nil || len(leases) > 0 {
		return
	}
	err = to.NamespaceService().Delete(in, name)
	if kind := containerd.Kind(err); err != nil && kind != node.NotExist && kind != node.Busy {
		c.Log.Warn().Str("type", "container").Str("step", "clean").Err(err).Str("namespace", name).Msg("cannot remove a namespace")
	}
}

// ClearNamespaces does so for all users without containers in all.
func (c Cleaner) ClearNamespaces(ctx context.Context, all map[string]tasks.RuntimeState) {
	users, err := c.Daemon.Users(ctx)
	if err != nil {
		return
	}
	busy := map[string]bool{}
	for _, s := range all {
		busy[s.User] = true
	}
	for _, user := range users {
		if !busy[user] {
			c.ClearNamespace(ctx, user)
		}
	}
}
