package container

import (
	"context"
	"slices"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/pkg/node"
)

// remove stops a container and removes all of it but its layer, its volumes and, for
// as long as its image is held for it, its log.
func (m *Module) remove(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	it, err := m.hold(ctx, id)
	if err != nil {
		return err
	}
	defer m.release(it)
	r, known := m.recordOf(id)
	user, err := m.cfg.owner(ctx, m.daemon, id)
	if err != nil && node.KindOf(err) != node.NotExist {
		return err
	}
	if err != nil {
		user = r.User
		standing, listed := m.roots.List()
		if listed != nil {
			return listed
		}
		if !known && !slices.Contains(standing, id) {
			return node.Errorf(node.NotExist, "cannot remove container %s: there is none", id)
		}
	}
	if known {
		// It isn't started again from here on, also by the next process.
		r.Wanted = false
		if err := m.keep(it, r); err != nil {
			return err
		}
	}
	return m.clear(ctx, it, user)
}

// clear removes all of a container, the record last: what fails is done by the
// next call.
func (m *Module) clear(ctx context.Context, it *item, user string) error {
	it.ready = waiting{}
	if user != "" {
		in, found, err := load(ctx, m.daemon, user, it.id)
		if err == nil {
			err = m.discard(in, found, user)
		} else if node.KindOf(err) == node.NotExist {
			err = m.clearLeft(m.daemon.Namespace(ctx, user), user, it.id)
		}
		if err != nil {
			return err
		}
	}
	if err := m.roots.Remove(ctx, it.id); err != nil {
		return err
	}
	if err := m.secrets.Remove(it.id); err != nil {
		return err
	}
	if err := m.dropLog(ctx, it.id); err != nil {
		return err
	}
	if user != "" {
		m.sweepUser(ctx, user)
	}
	return m.forget(it)
}

// sweepUser removes the namespace of a user who has nothing left in it.
// containerd refuses to remove one with something in it, but for leases: those
// are of who is about to put something in.
func (m *Module) sweepUser(ctx context.Context, user string) {
	c, err := m.daemon.Client(ctx)
	if err != nil {
		return
	}
	name := m.daemon.NamespaceName(user)
	in := m.daemon.Namespace(ctx, user)
	if leases, err := c.LeasesService().List(in); err != nil || len(leases) > 0 {
		return
	}
	err = c.NamespaceService().Delete(in, name)
	if kind := containerd.Kind(err); err != nil && kind != node.NotExist && kind != node.Busy {
		m.cfg.Log.Warn().Err(err).Str("type", "container").Str("namespace", name).Msg("a namespace can't be removed")
	}
}
