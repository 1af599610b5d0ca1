package image

import (
	"context"

	"github.com/croft-edge/croft/modules/container/image/catalog"
	"github.com/croft-edge/croft/modules/container/image/unpack"
	"github.com/croft-edge/croft/pkg/node"
)

// gate admits images within the limits, and evicts unused ones to make room.
type gate struct {
	limits  Limits
	disk    *disk
	catalog *catalog.Catalog
	// pulling returns the bytes that a user's other jobs fetch.
	pulling func(user string, but *job) int64
}

// admit checks an image of that many packed bytes against the limits before a layer
// is fetched, and returns the bounds of its unpacked size.
func (g gate) admit(ctx context.Context, in catalog.Namespace, j *job, packed int64) (unpack.Bounds, error) {
	b := unpack.Bounds{MostBytes: g.limits.MaxSize, MostFiles: g.limits.MaxFiles}
	if packed > g.limits.MaxSize {
		return b, node.Errorf(node.Refused, "cannot use the image: it has %d bytes packed, at most %d are allowed", packed, g.limits.MaxSize)
	}
	if j.spec.User != node.OwnUser { // the node itself has no budget
		left, err := g.budget(ctx, in, j, packed)
		if err != nil {
			return b, err
		}
		b.MostBytes = min(b.MostBytes, left)
	}
	return b, g.room(ctx, packed)
}

// budget returns the rest of a user's budget, and fails when that is less than
// the packed bytes.
func (g gate) budget(ctx context.Context, in catalog.Namespace, j *job, packed int64) (left int64, err error) {
	user, used := j.spec.User, int64(0)
	enough := func() (bool, error) {
		size, err := in.Size(ctx)
		if err != nil {
			return false, err
		}
		used = size + g.pulling(user, j)
		return used+packed <= g.limits.UserBudget, nil
	}
	ok, err := enough()
	if err == nil && !ok {
		if err = g.catalog.EvictUntil(ctx, user, enough); err == nil {
			ok, err = enough()
		}
	}
	if err == nil && !ok {
		err = node.Errorf(node.Refused, "cannot pull the image: it has %d bytes and the user's images %d, together at most %d are allowed", packed, used, g.limits.UserBudget)
	}
	return g.limits.UserBudget - used, err
}

// room fails with NoSpace when the disk has no room for the packed bytes, also after
// unused images were evicted.
func (g gate) room(ctx context.Context, packed int64) error {
	err := g.disk.room(ctx, packed)
	if node.KindOf(err) != node.NoSpace {
		return err
	}
	enough := func() (bool, error) {
		err := g.disk.room(ctx, packed)
		if node.KindOf(err) == node.NoSpace {
			return false, nil
		}
		return err == nil, err
	}
	if e := g.catalog.EvictUntil(ctx, "", enough); e != nil {
		return e
	}
	return g.disk.room(ctx, packed)
}
