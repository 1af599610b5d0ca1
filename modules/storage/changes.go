package storage

import (
	"context"
	"sync"
	"time"

	"github.com/croft-edge/croft/modules/storage/notice"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/changes"
	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/supervise"
)

// mountPause is how long changes of the mount table wait for others.
const mountPause = 100 * time.Millisecond

// Changes returns the bus object storage.changes.
func (m *Module) Changes() node.Changes { return m.hub }

// hear tells of things that appear or disappear on the pools, and mounts pools again as
// soon as they are unmounted, until ctx is done.
func (m *Module) hear(ctx context.Context) {
	_ = supervise.Keep(ctx, m.cfg.Log, "storage changes", backoff.Backoff{Base: 100 * time.Millisecond, Max: time.Minute}, func(ctx context.Context) error {
		defer m.hub.Lost() // what happens until it listens again
		folders, err := notice.Open(func(name string) { m.hub.Tell(changes.OwnerOf(name)) }, m.hub.Lost)
		if err != nil {
			return err
		}
		defer folders.Close()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var reading sync.WaitGroup
		defer reading.Wait()
		ended := make(chan error, 1)
		reading.Go(func() {
			defer cancel()
			ended <- folders.Run(ctx)
		})
		err = mounts.Watch(ctx, mountPause, func() {
			m.mountsChanged()
			m.watchFolders(folders)
		})
		cancel()
		if failed := <-ended; err == nil || ctx.Err() != nil {
			return failed
		}
		return err
	})
}

// watchFolders watches the folders of the pools that are mounted. The others' are watched
// once these are.
func (m *Module) watchFolders(folders *notice.Folders) {
	for _, p := range m.pools {
		if p.failed != nil || !p.isMounted() {
			continue
		}
		if err := folders.Watch(p.filesystems.Folder(), p.disks.Folder()); err != nil {
			m.cfg.Log.Warn().Str("pool", p.name).Str("step", "watch").Err(err).Msg("removed things of a pool are seen later")
		}
	}
}

// mountsChanged mounts pools again that aren't mounted any more.
func (m *Module) mountsChanged() {
	if !m.anyUnmounted() {
		return
	}
	if done, err := m.begin(); err == nil {
		done()
	}
	m.hub.Lost() // what was in containers' reach may be gone, or another pool's content
}
