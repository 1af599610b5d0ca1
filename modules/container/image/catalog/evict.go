package catalog

import (
	"context"
	"slices"
	"time"
)

// EvictUntil removes unused images of one user, or of all when user is empty, the
// longest unused first, until enough.
func (c *Catalog) EvictUntil(ctx context.Context, user string, enough func() (bool, error)) error {
	done := false
	return c.evictIf(ctx, user, func(Image) (bool, error) {
		if done {
			return false, nil
		}
		ok, err := enough()
		done = ok || err != nil
		return !done, err
	})
}

// EvictUnused removes the images that nothing has used for so long.
func (c *Catalog) EvictUnused(ctx context.Context, unused time.Duration) error {
	long := c.cfg.Clock.Now().Add(-unused)
	return c.evictIf(ctx, "", func(i Image) (bool, error) { return !i.used.After(long), nil })
}

// unusedImage is an image that no label has.
type unusedImage struct {
	Image
	ctx context.Context // it has the user's namespace
	in  Namespace
}

// evictIf removes the unused images for which which is true, asked with the longest
// unused first.
func (c *Catalog) evictIf(ctx context.Context, user string, which func(Image) (bool, error)) error {
	c.changes.Lock()
	defer c.changes.Unlock()
	list, err := c.unused(ctx, user)
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b unusedImage) int { return a.used.Compare(b.used) })
	for _, i := range list {
		ok, err := which(i.Image)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := c.evict(i); err != nil {
			return err
		}
	}
	return nil
}

// unused are the images that no label has, of one user or of all.
func (c *Catalog) unused(ctx context.Context, user string) (list []unusedImage, err error) {
	err = c.Each(ctx, func(in context.Context, n Namespace, all []Image) error {
		if user != "" && n.User != user {
			return nil
		}
		used := map[string]bool{}
		for _, i := range all {
			if i.Label != "" {
				used[i.Digest().String()] = true
			}
		}
		for _, i := range all {
			if !used[i.Digest().String()] {
				list = append(list, unusedImage{i, in, n})
			}
		}
		return nil
	})
	return list, err
}

// evict removes an unused image, and waits until its bytes are free.
func (c *Catalog) evict(i unusedImage) error {
	if err := i.in.remove(i.ctx, i.name, "remove an image"); err != nil {
		return err
	}
	c.cfg.Emptied(i.ctx, i.in.User, "")
	c.cfg.Log.Info().Str("step", "collect").Str("reference", i.Reference).Str("digest", i.Digest().String()).Time("used", i.used).Msg("removed an unused image")
	c.removed.Add(1)
	return nil
}
