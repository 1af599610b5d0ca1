package image

import (
	"context"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"

	"github.com/croft-edge/croft/pkg/node"
)

// Inspect returns a label's image. NotExist when there is none.
func (s *Store) Inspect(ctx context.Context, label string) (node.Image, error) {
	if err := checkLabel(label); err != nil {
		return node.Image{}, err
	}
	_, _, o, err := s.find(ctx, label)
	if err == nil && !o.released {
		return o.image(), nil
	}
	if err != nil && node.KindOf(err) != node.NotExist {
		return node.Image{}, err
	}
	s.mu.Lock()
	j := s.jobs[label]
	s.mu.Unlock()
	if j != nil && j.running() {
		return j.shown(), nil
	}
	return node.Image{}, node.Errorf(node.NotExist, "cannot find an image for %s", label)
}

// List returns the images of all labels, sorted.
func (s *Store) List(ctx context.Context) ([]node.Image, error) {
	byLabel := map[string]node.Image{}
	s.mu.Lock()
	for label, j := range s.jobs {
		if j.running() {
			byLabel[label] = j.shown()
		}
	}
	s.mu.Unlock()
	err := s.each(ctx, func(_ context.Context, _ parts, all []pinned) error {
		for _, o := range all {
			if o.label != "" && !o.released {
				byLabel[o.label] = o.image()
			}
		}
		return nil
	})
	out := make([]node.Image, 0, len(byLabel))
	for _, i := range byLabel {
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b node.Image) int { return strings.Compare(a.Label, b.Label) })
	return out, err
}

// each calls f for each user with the image objects of theirs.
func (s *Store) each(ctx context.Context, f func(ctx context.Context, p parts, all []pinned) error) error {
	users, err := s.cfg.Daemon.Users(ctx)
	if err != nil {
		return backend(err, "list users")
	}
	for _, user := range users {
		in, p, err := s.parts(ctx, user)
		if err != nil {
			return err
		}
		all, err := p.list(in)
		if err != nil {
			return err
		}
		if err := f(in, p, all); err != nil {
			return err
		}
	}
	return nil
}

// Release ends a label's pull with what it has fetched, or lets its image go.
// NotExist when it has neither. What a container still stands on is let go
// once it is gone.
func (s *Store) Release(ctx context.Context, label string) error {
	if err := checkLabel(label); err != nil {
		return err
	}
	found, err := s.stop(ctx, label)
	if err != nil {
		return err
	}
	s.chargeUnused(label)
	inUse, err := s.cfg.InUse(ctx)
	if err != nil {
		return backend(err, "ask which images are in use")
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	err = s.each(ctx, func(in context.Context, p parts, all []pinned) error {
		before := found
		defer func() {
			if found && !before {
				s.emptied(ctx, p.user, label)
			}
		}()
		left, err := p.lease(in, label)
		if err != nil {
			return err
		}
		if left {
			found = true
			if err := p.letGo(in, label); err != nil {
				return err
			}
		}
		for _, o := range all {
			if o.label == label && !o.released {
				found = true
				return s.release(in, p, o, inUse[label])
			}
		}
		return nil
	})
	if err == nil && !found {
		err = node.Errorf(node.NotExist, "cannot release %s: it has no image", label)
	}
	return err
}

// stop ends a label's job, and forgets it.
func (s *Store) stop(ctx context.Context, label string) (found bool, err error) {
	s.mu.Lock()
	j := s.jobs[label]
	s.mu.Unlock()
	if j == nil {
		return false, nil
	}
	j.cancel()
	select {
	case <-j.done:
	case <-ctx.Done():
		return true, node.Errorf(node.Transient, "cannot release %s: its pull doesn't end: %w", label, ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[label] == j {
		delete(s.jobs, label)
	}
	return true, nil
}

// release lets go of a label's image. s.writing is held.
func (s *Store) release(ctx context.Context, p parts, o pinned, stands bool) error {
	if err := p.touchAll(ctx, o.digest().String(), s.cfg.Clock.Now()); err != nil {
		return err
	}
	if stands {
		o.released = true
		return p.write(ctx, o)
	}
	return p.drop(ctx, o)
}

// emptied tells that something of a user's is gone, unless they have a pull that
// has just begun, but for that of a label: it may have put nothing anywhere yet.
func (s *Store) emptied(ctx context.Context, user, but string) {
	s.mu.Lock()
	pulls := false
	for label, j := range s.jobs {
		pulls = pulls || label != but && j.spec.User == user && j.running()
	}
	s.mu.Unlock()
	if !pulls {
		s.cfg.Emptied(ctx, user)
	}
}

// drop removes a label's object, and waits until its bytes are free. An older
// croft made a view for each label.
func (p parts) drop(ctx context.Context, o pinned) error {
	if err := p.snapshots.Remove(ctx, viewPrefix+o.label); err != nil && !errdefs.IsNotFound(err) {
		return backend(err, "let go of layers")
	}
	if err := p.images.Delete(ctx, o.name, images.SynchronousDelete()); err != nil && !errdefs.IsNotFound(err) {
		return backend(err, "let go of an image")
	}
	return nil
}
