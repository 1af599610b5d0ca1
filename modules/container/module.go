package container

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/launch"
	"github.com/croft-edge/croft/modules/container/managed"
	"github.com/croft-edge/croft/modules/container/rootfs"
	"github.com/croft-edge/croft/modules/container/supervise"
	"github.com/croft-edge/croft/pkg/filelock"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
	supervision "github.com/croft-edge/croft/pkg/supervise"
)

// Module owns the node's containers. Open makes one; it is safe for concurrent use.
type Module struct {
	daemon  *containerd.Daemon
	roots   *rootfs.Store
	outputs *logs.Keeper
	images  imageStore
	lock    *filelock.Lock
	log     zerolog.Logger

	// background ends with Close.
	background *background
	table      *managed.Table
	launcher   *launch.Launcher
	supervisor *supervise.Supervisor
	mounts     *mountWatch
	// service is the module's bus object.
	service service
}

// Run watches over the containers, the log carrier and the images until ctx is done.
func (m *Module) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	for name, part := range map[string]func(context.Context) error{
		"logs": m.outputs.Run, "images": m.images.Run, "containers": m.supervisor.Run, "mounts": m.watchMounts,
	} {
		parts.Go(func() {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				m.log.Error().Str("type", "container").Str("step", name).Err(err).Msg("a part of the container module has ended")
			}
		})
	}
	parts.Wait()
	return nil
}

// watchMounts tells of containers of which a mount is gone, until ctx is done.
func (m *Module) watchMounts(ctx context.Context) error {
	return supervision.Keep(ctx, m.log, "container mounts", supervision.DefaultBackoff(), m.mounts.run)
}

// Close ends the module: its calls fail. Containers go on. It waits for the
// changes in hand.
func (m *Module) Close() error {
	if m.table != nil {
		m.table.Close()
	}
	if !m.background.close() {
		return nil
	}
	m.outputs.Close()
	m.roots.Close()
	if m.images != nil {
		_ = m.images.Close()
	}
	err := m.daemon.Close()
	if m.lock != nil {
		_ = m.lock.Release()
	}
	return err
}

// Containers returns the bus object container.container.
func (m *Module) Containers() node.Containers { return m.service }

// Images returns the bus object container.image.
func (m *Module) Images() node.Images {
	return images{m.images.Images(), m.background, m.service.remover.logs}
}
