package image

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"

	"github.com/croft-edge/croft/pkg/node"
)

// staleLease is how old what a pull has fetched may get while nobody goes on.
const staleLease = 7 * 24 * time.Hour

// Run looks for garbage until ctx ends, with jitter.
func (s *Store) Run(ctx context.Context) error {
	for {
		pause := s.cfg.Every/2 + rand.N(s.cfg.Every)
		select {
		case <-ctx.Done():
			return nil
		case <-s.cfg.Clock.After(pause):
		}
		if err := s.Collect(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn().Err(err).Str("type", "image").Str("step", "collect").Msg("cannot look for unused images")
		}
	}
}

// Collect removes images that nothing has used for long, and while the file
// system is too full, those that were used the longest time ago.
func (s *Store) Collect(ctx context.Context) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	long := s.cfg.Clock.Now().Add(-s.cfg.Unused)
	if err := s.evictIf(ctx, "", func(o pinned) (bool, error) { return !o.used.After(long), nil }); err != nil {
		return err
	}
	return s.evict(ctx, "", func() (bool, error) {
		sp, err := s.space(ctx)
		return float64(sp.Used) <= s.cfg.Full*float64(sp.Total), err
	})
}

// settle lets go of what was only waiting for a container to end, and of pulls
// that nobody goes on with; it forgets failures that nobody asks for.
func (s *Store) settle(ctx context.Context) error {
	now := s.cfg.Clock.Now()
	s.mu.Lock()
	for label, j := range s.jobs {
		if !j.running() && now.Sub(j.ended) > time.Hour {
			delete(s.jobs, label)
		}
	}
	s.mu.Unlock()
	inUse, err := s.cfg.InUse(ctx)
	if err != nil {
		return backend(err, "ask which images are in use")
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.each(ctx, func(in context.Context, p parts, all []pinned) error {
		for _, o := range all {
			if !o.released || inUse[o.label] {
				continue
			}
			if err := p.drop(in, o); err != nil {
				return err
			}
			s.emptied(ctx, p.user, o.label)
		}
		return s.staleLeases(in, p, now)
	})
}

func (s *Store) staleLeases(ctx context.Context, p parts, now time.Time) error {
	all, err := p.leases.List(ctx)
	if err != nil {
		return backend(err, "list pulls")
	}
	for _, l := range all {
		label, ours := strings.CutPrefix(l.ID, leasePrefix)
		if !ours || now.Sub(l.CreatedAt) < staleLease || s.pulling(label) {
			continue
		}
		if err := p.letGo(ctx, label); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) pulling(label string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[label]
	return j != nil && j.running()
}

// lease reports whether a label's pull has left something.
func (p parts) lease(ctx context.Context, label string) (bool, error) {
	all, err := p.leases.List(ctx)
	if err != nil {
		return false, backend(err, "list pulls")
	}
	for _, l := range all {
		if l.ID == leasePrefix+label {
			return true, nil
		}
	}
	return false, nil
}

// evict removes unused images, the longest unused first, until it is enough.
func (s *Store) evict(ctx context.Context, user string, enough func() (bool, error)) error {
	done := false
	return s.evictIf(ctx, user, func(pinned) (bool, error) {
		if done {
			return false, nil
		}
		ok, err := enough()
		done = ok || err != nil
		return !done, err
	})
}

// unused is an image that no label has.
type unused struct {
	pinned
	ctx   context.Context // it has the user's namespace
	parts parts
}

// evictIf removes those unused images, of one user or of all, that which says,
// asked with the longest unused first.
func (s *Store) evictIf(ctx context.Context, user string, which func(pinned) (bool, error)) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	var list []unused
	err := s.each(ctx, func(in context.Context, p parts, all []pinned) error {
		if user != "" && p.user != user {
			return nil
		}
		used := map[string]bool{}
		for _, o := range all {
			if o.label != "" {
				used[o.digest().String()] = true
			}
		}
		for _, o := range all {
			if !used[o.digest().String()] {
				list = append(list, unused{o, in, p})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b unused) int { return a.used.Compare(b.used) })
	for _, o := range list {
		ok, err := which(o.pinned)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := s.remove(o); err != nil {
			return err
		}
	}
	return nil
}

// remove takes an unused image away, and waits until its bytes are free.
func (s *Store) remove(o unused) error {
	if err := o.parts.images.Delete(o.ctx, o.name, images.SynchronousDelete()); err != nil && !errdefs.IsNotFound(err) {
		return backend(err, "remove an image")
	}
	s.emptied(o.ctx, o.parts.user, "")
	s.cfg.Log.Info().Str("type", "image").Str("step", "collect").Str("reference", o.reference).Str("digest", o.digest().String()).Time("used", o.used).Msg("removed an unused image")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed++
	return nil
}

// touchAll notes for what leads to an image that it is used now.
func (p parts) touchAll(ctx context.Context, digest string, now time.Time) error {
	all, err := p.list(ctx)
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.label == "" && o.digest().String() == digest {
			o.used = now
			if err := p.write(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// Status is how much the images take.
func (s *Store) Status(ctx context.Context) (node.ImageStatus, error) {
	sp, err := s.space(ctx)
	if err != nil {
		return node.ImageStatus{}, err
	}
	st := node.ImageStatus{Used: sp.Used, Total: sp.Total}
	err = s.each(ctx, func(_ context.Context, _ parts, all []pinned) error {
		seen := map[string]bool{}
		for _, o := range all {
			if d := o.digest().String(); !seen[d] {
				seen[d] = true
				st.Images, st.Size = st.Images+1, st.Size+uint64(o.size)
			}
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Removed = s.removed
	return st, err
}
