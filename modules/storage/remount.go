package storage

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/storage/blockdev"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/loop"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// mountsEvery is the pause between two checks that the pools are mounted.
	mountsEvery = 5 * time.Second
	// remountFor bounds one try to mount them again.
	remountFor = 10 * time.Second
)

// watch mounts pools again that somebody unmounted under the node, sets limits again that somebody has
// changed, and removes the quota groups that the kernel's cleaner has done with, until the module is closed.
func (m *Module) watch() {
	defer close(m.ended)
	ctx, cancel := context.WithCancel(context.Background())
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer cancel()
	hearing.Go(func() { m.hear(ctx) })
	look, sweep := time.NewTimer(backoff.Together(mountsEvery)), time.NewTicker(m.cfg.sweepEvery)
	limits := time.NewTimer(backoff.Together(m.cfg.limitsEvery))
	defer look.Stop()
	defer sweep.Stop()
	defer limits.Stop()
	for {
		select {
		case <-m.closed:
			return
		case <-sweep.C:
			m.sweepAll()
			continue
		case <-limits.C:
			m.limitAll()
			limits.Reset(backoff.Together(m.cfg.limitsEvery))
			continue
		case <-look.C:
			look.Reset(backoff.Together(mountsEvery))
		}
		if !m.anyUnmounted() {
			continue
		}
		if done, err := m.begin(); err == nil {
			done()
		}
	}
}

func (m *Module) anyUnmounted() bool {
	for _, p := range m.pools {
		if p.failed == nil && !p.isMounted() {
			return true
		}
	}
	return false
}

// remountAll mounts pools again that were in use and aren't mounted any more. A pool
// that fails is broken, which Status says, and retried later. The caller holds mu.
func (m *Module) remountAll() {
	for _, p := range m.pools {
		if p.failed != nil || p.isMounted() || time.Since(p.tried) < mountsEvery/2 {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), remountFor)
		err := p.remount(ctx, m.cfg)
		cancel()
		if err != nil {
			p.tried = time.Now()
			if cause := err.Error(); p.cause != cause {
				p.cause = cause
				p.log.Error().Str("step", "drift").Err(err).Str("pool", p.name).Msg("a pool isn't mounted any more, and can't be mounted again: tried again")
			}
			continue
		}
		p.tried, p.cause = time.Time{}, ""
		device, again := p.mountedFrom()
		p.log.Warn().Str("step", "drift").Str("pool", p.name).Str("device", device).Uint64("remounted", again).
			Msg("a pool was unmounted by somebody else: it is mounted again")
		m.changed.fire()
	}
}

// sweepAll removes, on each working pool, the quota groups of things removed since the last sweep. After
// every few groups other calls have their turn.
func (m *Module) sweepAll() {
	for _, p := range m.pools {
		for next, more := uint64(0), true; more; {
			done, err := m.begin()
			if err != nil {
				return
			}
			next, more = p.sweep(next)
			done()
		}
	}
}

// remount mounts the very file system that was mounted before. It makes and
// formats nothing, and leaves another mount in the pool's place alone.
func (m *mount) remount(ctx context.Context, cfg Config) error {
	other, taken, err := mountedAt(m.path)
	if err != nil {
		return err
	}
	if taken {
		return node.Errorf(node.Refused, "cannot mount pool %s: %s from %s is mounted on %s", m.pool, other.Type, other.Source, m.path)
	}
	if m.source != "" {
		device, err := filepath.EvalSymlinks(m.source)
		if err != nil {
			return errors.Wrap(err, "cannot find disk")
		}
		if err := blockdev.CheckElsewhere(device, m.path, volume.StateRoot); err != nil {
			return err
		}
		return m.mountAgain(device, device, cfg)
	}
	image := cfg.image(m.pool)
	device, err := loop.Attach(ctx, image)
	if err != nil {
		return err
	}
	// Once it is mounted the mount holds the device.
	defer device.Close()
	return m.mountAgain(device.Path(), image, cfg)
}

// mountAgain mounts a device whose content is read from holder, if that is the pool.
func (m *mount) mountAgain(device, holder string, cfg Config) error {
	marks, err := cfg.readMarks()
	if err != nil {
		return err
	}
	super, err := (&opener{cfg: cfg, marks: marks}).identify(m.pool, holder)
	if err != nil {
		return err
	}
	if super.UUID != m.uuid {
		return errors.Errorf("%s holds a btrfs with UUID %s, not the %q that was mounted", holder, super.UUID, m.uuid)
	}
	if err := mountPool(device, m.path); err != nil {
		return err
	}
	m.setDevice(device, true)
	return m.health()
}
