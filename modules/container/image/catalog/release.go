package catalog

import (
	"context"

	"github.com/containerd/errdefs"

	"github.com/croft-edge/croft/pkg/node"
)

// Release lets a label's image go, and its pull's fetched data. The image of a
// container that still exists is only marked, and let go by Settle. NotExist when
// there is neither, unless ended says that the caller has ended a pull.
func (c *Catalog) Release(ctx context.Context, label string, ended bool) error {
	inUse, err := c.cfg.InUse(ctx)
	if err != nil {
		return Kinded(err, "ask which images are in use")
	}
	c.changes.Lock()
	defer c.changes.Unlock()
	found := ended
	err = c.Each(ctx, func(in context.Context, n Namespace, all []Image) error {
		before := found
		defer func() {
			if found && !before {
				c.cfg.Emptied(ctx, n.User, label)
			}
		}()
		left, err := n.leased(in, label)
		if err != nil {
			return err
		}
		if left {
			found = true
			if err := n.LetGo(in, label); err != nil {
				return err
			}
		}
		for _, i := range all {
			if i.Label == label && !i.Released {
				found = true
				return c.release(in, n, i, inUse[label])
			}
		}
		return nil
	})
	if err == nil && !found {
		err = node.Errorf(node.NotExist, "cannot release %s: it has no image", label)
	}
	return err
}

// release lets a label's image go, or marks it while it is in use. c.changes is held.
func (c *Catalog) release(ctx context.Context, n Namespace, i Image, inUse bool) error {
	if err := n.touchAll(ctx, i.Digest().String(), c.cfg.Clock.Now()); err != nil {
		return err
	}
	if inUse {
		i.Released = true
		return n.write(ctx, i)
	}
	return n.drop(ctx, i)
}

// drop removes a label's object, and waits until its bytes are free. An older
// croft made a view for each label.
func (n Namespace) drop(ctx context.Context, i Image) error {
	if err := n.Snapshots.Remove(ctx, viewPrefix+i.Label); err != nil && !errdefs.IsNotFound(err) {
		return Kinded(err, "let go of layers")
	}
	return n.remove(ctx, i.name, "let go of an image")
}

// Clean removes all that a label's pull has fetched.
func (c *Catalog) Clean(ctx context.Context, user, label string) error {
	in, n, err := c.In(ctx, user)
	if err != nil {
		return err
	}
	if err := n.LetGo(in, label); err != nil {
		return err
	}
	c.changes.Lock()
	defer c.changes.Unlock()
	c.cfg.Emptied(ctx, user, label)
	return nil
}

// Settle drops released images whose containers have ended since, and the leases of
// pulls that nobody continues.
func (c *Catalog) Settle(ctx context.Context, pulling func(label string) bool) error {
	now := c.cfg.Clock.Now()
	inUse, err := c.cfg.InUse(ctx)
	if err != nil {
		return Kinded(err, "ask which images are in use")
	}
	c.changes.Lock()
	defer c.changes.Unlock()
	return c.Each(ctx, func(in context.Context, n Namespace, all []Image) error {
		for _, i := range all {
			if !i.Released || inUse[i.Label] {
				continue
			}
			if err := n.drop(in, i); err != nil {
				return err
			}
			c.cfg.Emptied(ctx, n.User, i.Label)
		}
		return n.endStale(in, now, pulling)
	})
}
