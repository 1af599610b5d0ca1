package container

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/containerd/v2/client"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/leftovers"
	"github.com/croft-edge/croft/modules/container/managed"
	"github.com/croft-edge/croft/modules/container/plan"
	"github.com/croft-edge/croft/modules/container/secret"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/node"
)

// rootRemover removes root file systems.
type rootRemover interface {
	Check(id string) (drift string, err error)
	List() ([]string, error)
	Remove(ctx context.Context, id string) error
}

// remover removes containers.
type remover struct {
	index     tasks.Index
	table     *managed.Table
	roots     rootRemover
	secrets   *secret.Store
	leftovers leftovers.Cleaner
	logs      logRemover
}

// remove stops a container and removes all of it but its layer, its volumes and, for
// as long as its image is held for it, its log.
func (r remover) remove(ctx context.Context, id string) error {
	if err := plan.CheckID(id); err != nil {
		return err
	}
	held, err := r.table.Hold(ctx, id)
	if err != nil {
		return err
	}
	defer r.table.Release(held)
	record, known := r.table.Record(id)
	user, err := r.index.User(ctx, id)
	if err != nil && node.KindOf(err) != node.NotExist {
		return err
	}
	if err != nil {
		user = record.User
		mounted, listed := r.roots.List()
		if listed != nil {
			return listed
		}
		if !known && !slices.Contains(mounted, id) {
			return node.Errorf(node.NotExist, "cannot remove container %s: there is none", id)
		}
	}
	if known {
		// From here on it isn't started again, by the next process neither.
		record.Wanted = false
		if err := r.table.Keep(held, record); err != nil {
			return err
		}
	}
	return r.clear(ctx, held, user)
}

// clear removes all of a held container, the record last: the next call goes on where this one
// fails. A container of that ID in containerd that isn't croft's stays.
func (r remover) clear(ctx context.Context, held *managed.Container, user string) error {
	held.Prepared = managed.PreparedTask{}
	if user != "" {
		if err := r.clearContainerd(ctx, held, user); err != nil {
			return err
		}
	}
	if err := r.roots.Remove(ctx, held.ID); err != nil {
		return err
	}
	if err := r.secrets.Remove(held.ID); err != nil {
		return err
	}
	if err := r.logs.end(ctx, held.ID); err != nil {
		return err
	}
	if user != "" {
		r.leftovers.ClearNamespace(ctx, user)
	}
	return r.table.Forget(held)
}

// clearContainerd removes what containerd has of a held container.
func (r remover) clearContainerd(ctx context.Context, held *managed.Container, user string) error {
	in, found, err := tasks.Load(ctx, r.index.Daemon, user, held.ID)
	switch {
	case err == nil:
		return r.discard(in, found, user)
	case node.KindOf(err) == node.NotExist:
		return r.leftovers.Clear(r.index.Daemon.Namespace(ctx, user), user, held.ID)
	case node.KindOf(err) == node.Exist:
		return nil
	}
	return err
}

// discard stops a container's task and takes the container out of containerd. Its root file system stays.
func (r remover) discard(ctx context.Context, c client.Container, user string) error {
	if err := tasks.Halt(ctx, c); err != nil {
		return err
	}
	if err := c.Delete(ctx); err != nil && containerd.Kind(err) != node.NotExist {
		return containerd.Error(err, "remove container %s", c.ID())
	}
	return r.leftovers.Clear(ctx, user, c.ID())
}

// endLost ends the processes of a container that containerd has lost: they are in the way of the new
// one, and nobody could stop them. Its root file system stays.
func (r remover) endLost(ctx context.Context, held *managed.Container, user string) error {
	if _, known := r.table.Record(held.ID); !known {
		if _, err := r.roots.Check(held.ID); node.KindOf(err) == node.NotExist {
			return nil
		}
	}
	held.Prepared = managed.PreparedTask{}
	return r.leftovers.Clear(r.index.Daemon.Namespace(ctx, user), user, held.ID)
}

// logDropper ends a container's log, and removes it unless its files are kept.
type logDropper interface {
	Drop(ctx context.Context, id string, keepFiles bool) error
}

// logRemover ends and removes the logs of containers. While a container's image is held the container may
// come back on the same layer: until then its log stays.
type logRemover struct {
	table   *managed.Table
	outputs logDropper
	// images are those that are held for containers.
	images node.Images
	// dir is the folder of the logs.
	dir string
}

// end ends the log of a container that is removed.
func (l logRemover) end(ctx context.Context, id string) error {
	_, err := l.images.Inspect(id)
	return l.outputs.Drop(ctx, id, err == nil)
}

// removeOrphan removes the log of a container that doesn't exist any more.
func (l logRemover) removeOrphan(ctx context.Context, id string) error {
	if plan.CheckID(id) != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(l.dir, id)); os.IsNotExist(err) {
		return nil
	}
	held, err := l.table.Hold(ctx, id)
	if err != nil {
		return err
	}
	defer l.table.Release(held)
	if _, known := l.table.Record(id); known {
		return nil
	}
	return l.outputs.Drop(ctx, id, false)
}
