package image

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// Images is the contract node.Images, for a bus.
func (s *Store) Images() node.Images { return service{s} }

// longestCall is for a call that waits for nothing but containerd.
const longestCall = time.Minute

type service struct{ s *Store }

func (o service) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(o.s.pulls.alive, longestCall)
}

func (o service) Pull(spec node.ImageSpec) (node.Image, error) {
	ctx, cancel := o.within()
	defer cancel()
	return o.s.Pull(ctx, spec)
}

func (o service) Inspect(label string) (node.Image, error) {
	ctx, cancel := o.within()
	defer cancel()
	return o.s.Inspect(ctx, label)
}

func (o service) Release(label string) error {
	ctx, cancel := o.within()
	defer cancel()
	return o.s.Release(ctx, label)
}

func (o service) List() ([]node.Image, error) {
	ctx, cancel := o.within()
	defer cancel()
	return o.s.List(ctx)
}

func (o service) Status() (node.ImageStatus, error) {
	ctx, cancel := o.within()
	defer cancel()
	return o.s.Status(ctx)
}
