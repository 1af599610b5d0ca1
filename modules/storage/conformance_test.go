package storage

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/workload"
)

// direct is what the stub looks like, without a bus.
type direct struct{ node.Storage }

func (d direct) CreateFilesystem(_ context.Context, spec node.FilesystemSpec) (node.Filesystem, error) {
	return d.Storage.CreateFilesystem(spec)
}

func (d direct) ReleaseFilesystem(_ context.Context, name string) error {
	return d.Storage.ReleaseFilesystem(name)
}

func (d direct) InspectFilesystem(_ context.Context, name string) (node.Filesystem, error) {
	return d.Storage.InspectFilesystem(name)
}

func (d direct) ListFilesystems(context.Context) ([]node.Filesystem, error) {
	return d.Storage.ListFilesystems()
}

func (d direct) Status(context.Context) (node.StorageStatus, error) { return d.Storage.Status() }

func (d direct) Monitor(ctx context.Context) (<-chan node.PoolUse, error) {
	return d.Storage.Monitor(ctx), nil
}

// directDisks is what the stub looks like, without a bus.
type directDisks struct{ node.VDisks }

func (d directDisks) Allocate(_ context.Context, name string, size uint64) (node.VDisk, error) {
	return d.VDisks.Allocate(name, size)
}

func (d directDisks) Deallocate(_ context.Context, name string) error {
	return d.VDisks.Deallocate(name)
}

func (d directDisks) Inspect(_ context.Context, name string) (node.VDisk, error) {
	return d.VDisks.Inspect(name)
}

func (d directDisks) List(context.Context) ([]node.VDisk, error) { return d.VDisks.List() }

func TestStorageConforms(t *testing.T) {
	for _, quota := range quotaKinds(t) {
		t.Run(string(quota), func(t *testing.T) {
			conformance.StorageSuite(t, func(t *testing.T) conformance.StorageSubject {
				before := goleak.IgnoreCurrent()
				t.Cleanup(func() { goleak.VerifyNone(t, before) })
				cfg := newConfig(t)
				cfg.Quota = quota
				m := opened(t, cfg)
				return conformance.StorageSubject{
					Client: direct{m.Storage()}, Offers: workload.SSD, Lacks: workload.HDD,
					Restart: func(t *testing.T) conformance.StorageClient { return direct{reopen(t, m).Storage()} },
				}
			})
		})
	}
}

func TestVDisksConform(t *testing.T) {
	conformance.VDisksSuite(t, func(t *testing.T) conformance.VDisksSubject {
		m := opened(t, newConfig(t))
		return conformance.VDisksSubject{
			Client:  directDisks{m.VDisks()},
			Restart: func(t *testing.T) conformance.VDisksClient { return directDisks{reopen(t, m).VDisks()} },
		}
	})
}
