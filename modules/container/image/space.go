package image

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// mostReserve is left free on the image file system for everything else, or a
// 20th of it when that is less.
const mostReserve = uint64(1) << 30

// space is that of the file system that images lie on.
func (s *Store) space(ctx context.Context) (Space, error) {
	if s.cfg.Space != nil {
		return s.cfg.Space(ctx)
	}
	root, err := s.root(ctx)
	if err != nil {
		return Space{}, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return Space{}, node.Errorf(node.Internal, "cannot look at the space for images: %w", err)
	}
	size := uint64(st.Bsize)
	return Space{Used: (st.Blocks - st.Bfree) * size, Total: st.Blocks * size, Free: st.Bavail * size}, nil
}

// root is the folder of the snapshotter.
func (s *Store) root(ctx context.Context) (string, error) {
	c, err := s.cfg.Daemon.Client(ctx)
	if err != nil {
		return "", backend(err, "reach containerd")
	}
	found, err := c.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1,id=="+snapshotter)
	if err != nil {
		return "", backend(err, "ask containerd for its snapshotter")
	}
	for _, p := range found.Plugins {
		if root := p.Exports["root"]; root != "" {
			return root, nil
		}
	}
	return "", node.Errorf(node.Internal, "cannot use containerd: it has no %s snapshotter", snapshotter)
}

// left is how many bytes there are beside the reserve; less than 0 when that is used.
func (s *Store) left(ctx context.Context) (int64, error) {
	sp, err := s.space(ctx)
	return int64(sp.Free) - int64(min(mostReserve, sp.Total/20)), err
}

// roomEvery is how often the space is looked at while a layer is unpacked.
const roomEvery = 500 * time.Millisecond

// watchRoom ends what unpacks a layer when there is no room any more: others write too.
func (s *Store) watchRoom(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(roomEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := s.room(ctx, 0); node.KindOf(err) == node.NoSpace {
				end(err)
				return
			}
		}
	}
}

// room fails with NoSpace when there aren't that many bytes left beside the
// reserve.
func (s *Store) room(ctx context.Context, bytes int64) error {
	sp, err := s.space(ctx)
	if err != nil {
		return err
	}
	reserve := min(mostReserve, sp.Total/20)
	if sp.Free < reserve+uint64(bytes) {
		return node.Errorf(node.NoSpace, "cannot pull the image: it needs %d bytes, %d are free and %d of them are kept for the node", bytes, sp.Free, reserve)
	}
	return nil
}

// admit checks an image against the limits before a layer is fetched, and
// removes what nobody uses when that makes room.
func (a *attempt) admit(ctx context.Context, c chosen) error {
	s := a.store
	if c.total > s.cfg.MaxSize {
		return node.Errorf(node.Refused, "cannot use the image: it has %d bytes packed, at most %d are allowed", c.total, s.cfg.MaxSize)
	}
	if err := a.budget(ctx, c); err != nil {
		return err
	}
	err := s.room(ctx, c.total)
	if node.KindOf(err) != node.NoSpace {
		return err
	}
	enough := func() (bool, error) {
		err := s.room(ctx, c.total)
		if node.KindOf(err) == node.NoSpace {
			return false, nil
		}
		return err == nil, err
	}
	if e := s.evict(ctx, "", enough); e != nil {
		return e
	}
	return s.room(ctx, c.total)
}

// counted reports whether there is a budget: the node itself has none.
func (a *attempt) counted() bool { return a.job.spec.User != node.OwnUser }

// budget checks an image against what its user may have.
func (a *attempt) budget(ctx context.Context, c chosen) error {
	s, user := a.store, a.job.spec.User
	if !a.counted() {
		return nil
	}
	enough := func() (bool, error) {
		used, err := s.usedBy(ctx, a.parts, a.job)
		a.before = used
		return err == nil && used+c.total <= s.cfg.UserBudget, err
	}
	ok, err := enough()
	if err != nil || ok {
		return err
	}
	if err := s.evict(ctx, user, enough); err != nil {
		return err
	}
	if ok, err = enough(); err != nil || ok {
		return err
	}
	return node.Errorf(node.Refused, "cannot pull the image: it has %d bytes and the user's images %d, together at most %d are allowed", c.total, a.before, s.cfg.UserBudget)
}

// usedBy are the bytes of a user's images, and of those that are being pulled
// but for one.
func (s *Store) usedBy(ctx context.Context, p parts, but *job) (int64, error) {
	all, err := p.list(ctx)
	if err != nil {
		return 0, err
	}
	sizes := map[string]int64{}
	for _, o := range all {
		sizes[o.digest().String()] = o.size
	}
	var total int64
	for _, size := range sizes {
		total += size
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j != but && j.spec.User == p.user && j.running() {
			total += int64(j.shown().Total)
		}
	}
	return total, nil
}
