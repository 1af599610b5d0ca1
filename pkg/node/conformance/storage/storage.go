package storage

import (
	"context"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
	"github.com/croft-edge/croft/pkg/workload"
)

// Client is the interface of the stub of node.Storage.
type Client interface {
	CreateFilesystem(ctx context.Context, spec node.FilesystemSpec) (node.Filesystem, error)
	ReleaseFilesystem(ctx context.Context, name string) error
	ResizeFilesystem(ctx context.Context, name string, size uint64) (node.Filesystem, error)
	InspectFilesystem(ctx context.Context, name string) (node.Filesystem, error)
	ListFilesystems(ctx context.Context) ([]node.Filesystem, error)
	Status(ctx context.Context) (node.StorageStatus, error)
	Monitor(ctx context.Context) (<-chan node.PoolUse, error)
}

// Subject is a new storage module: empty, with one pool of 500 MiB to 4 GiB, all of
// one type.
type Subject struct {
	Client Client
	// Offers is the type of the pool, Lacks the other one.
	Offers workload.DeviceType
	Lacks  workload.DeviceType
	// Disk has the files of its file systems; those that the kernel has mounted when nil.
	Disk Disk
	// Restart kills the module like kill -9, starts it again on the same
	// state, and returns the new client.
	Restart func(t *testing.T) Client
}

// Suite tests an implementation of node.Storage. Each part gets its own subject
// from open.
func Suite(t *testing.T, open func(t *testing.T) Subject) {
	parts := []struct {
		name string
		run  func(t *testing.T, s Subject)
	}{
		{"create", storageCreate},
		{"twice", storageTwice},
		{"differs", storageDiffers},
		{"another hash", storageAnotherHash},
		{"unlabelled, not adopted", storageUnlabelled},
		{"unlabelled, adopted", storageAdopted},
		{"unlabelled and full, adopted", storageAdoptedFull},
		{"remove", storageRemove},
		{"remove what isn't there", storageRemoveNothing},
		{"after a restart", storageRestart},
		{"bad names", storageBadNames},
		{"bad specs", storageBadSpecs},
		{"size is enforced", storageLimit},
		{"a full one can be removed", storageRemoveFull},
		{"no space", storageNoSpace},
		{"on a pool", storageOnPool},
		{"grow and shrink", storageResize},
		{"resize twice", storageResizeTwice},
		{"grow beyond the pool", storageGrowTooFar},
		{"shrink below what it holds", storageShrinkTooFar},
		{"resize what isn't there", storageResizeNothing},
		{"resized after a restart", storageResizeRestart},
		{"at the same time", storageConcurrent},
		{"monitor", storageMonitor},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			s := open(t)
			if s.Disk == nil {
				s.Disk = mounted{}
			}
			part.run(t, s)
		})
	}
}

func (s Subject) spec(name string, size uint64) node.FilesystemSpec {
	return node.FilesystemSpec{Name: name, Size: size, DiskType: s.Offers}
}

// create makes a file system that must succeed.
func (s Subject) create(t *testing.T, name string, size uint64) node.Filesystem {
	t.Helper()
	f, err := s.Client.CreateFilesystem(t.Context(), s.spec(name, size))
	expect.NoError(t, err)
	return f
}

// names are the names of all file systems.
func (s Subject) names(t *testing.T) []string {
	t.Helper()
	list, err := s.Client.ListFilesystems(t.Context())
	expect.NoError(t, err)
	names := []string{}
	for _, f := range list {
		names = append(names, f.Name)
	}
	return names
}
