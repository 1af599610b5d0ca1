package image

import (
	"context"
	"time"

	"github.com/croft-edge/croft/modules/container/image/catalog"
	"github.com/croft-edge/croft/pkg/diskspace"
	"github.com/croft-edge/croft/pkg/node"
)

// mostReserve is left free on the image file system for everything else, or a
// 20th of it when that is less.
const mostReserve = uint64(1) << 30

// Space is how full the place of images is, in bytes.
type Space struct{ Used, Total, Free uint64 }

// disk is the file system of unpacked images.
type disk struct {
	daemon catalog.Daemon
	// space returns the space of it; nil asks the kernel.
	space func(ctx context.Context) (Space, error)
}

// usage is how full the file system is.
func (d *disk) usage(ctx context.Context) (Space, error) {
	if d.space != nil {
		return d.space(ctx)
	}
	root, err := Folder(ctx, d.daemon)
	if err != nil {
		return Space{}, err
	}
	s, err := diskspace.Of(root)
	if err != nil {
		return Space{}, node.Errorf(node.Internal, "cannot look at the space for images: %w", err)
	}
	return Space(s), nil
}

// Folder is the folder of the snapshotter, which has the unpacked layers.
func Folder(ctx context.Context, d catalog.Daemon) (string, error) {
	c, err := d.Client(ctx)
	if err != nil {
		return "", catalog.Kinded(err, "reach containerd")
	}
	found, err := c.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1,id=="+catalog.Snapshotter)
	if err != nil {
		return "", catalog.Kinded(err, "ask containerd for its snapshotter")
	}
	for _, p := range found.Plugins {
		if root := p.Exports["root"]; root != "" {
			return root, nil
		}
	}
	return "", node.Errorf(node.Internal, "cannot use containerd: it has no %s snapshotter", catalog.Snapshotter)
}

// left is how many bytes there are beside the reserve; less than 0 when that is used.
func (d *disk) left(ctx context.Context) (int64, error) {
	sp, err := d.usage(ctx)
	return int64(sp.Free) - int64(min(mostReserve, sp.Total/20)), err
}

// roomEvery is how often the space is looked at while a layer is unpacked.
const roomEvery = 500 * time.Millisecond

// watch ends the unpacking of a layer when there is no room any more: others write too.
func (d *disk) watch(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := d.room(ctx, 0); node.KindOf(err) == node.NoSpace {
				end(err)
				return
			}
		}
	}
}

// room fails with NoSpace when there aren't that many bytes left beside the
// reserve.
func (d *disk) room(ctx context.Context, bytes int64) error {
	sp, err := d.usage(ctx)
	if err != nil {
		return err
	}
	reserve := min(mostReserve, sp.Total/20)
	if sp.Free < reserve+uint64(bytes) {
		return node.Errorf(node.NoSpace, "cannot pull the image: it needs %d bytes, %d are free and %d of them are kept for the node", bytes, sp.Free, reserve)
	}
	return nil
}
