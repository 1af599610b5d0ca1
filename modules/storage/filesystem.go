package storage

import (
	"context"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// service is the module's bus object storage.storage.
type service struct{ m *Module }

// CreateFilesystem makes it, or returns the one of that name.
func (s service) CreateFilesystem(spec node.FilesystemSpec) (node.Filesystem, error) {
	if err := checkSpec(spec); err != nil {
		return node.Filesystem{}, err
	}
	done, err := s.m.begin()
	if err != nil {
		return node.Filesystem{}, err
	}
	defer done()
	p, l, err := s.m.find(filesystems(), spec.Name)
	if err == nil {
		return s.adopt(p, l, spec)
	}
	if !errors.Is(err, node.NotExist) {
		return node.Filesystem{}, err
	}
	p, err = s.m.choose(wish{
		what: filesystems().what + " " + spec.Name, size: spec.Size, pool: spec.Pool, types: []workload.DeviceType{spec.DiskType},
	})
	if err != nil {
		return node.Filesystem{}, err
	}
	f, err := p.open()
	if err != nil {
		return node.Filesystem{}, err
	}
	defer f.Close()
	l = volume.Label{Name: spec.Name, Size: spec.Size, Hash: spec.Hash}
	err = p.filesystems.Create(f, l)
	s.m.changed.fire() // it may be there although that has failed
	if err != nil {
		return node.Filesystem{}, err
	}
	return p.filesystem(f, l)
}

func checkSpec(spec node.FilesystemSpec) error {
	if err := checkName("filesystem", spec.Name); err != nil {
		return err
	}
	if spec.Size < volume.MinSize {
		return node.Errorf(node.Invalid, "cannot create filesystem %s: size is %d bytes, must be at least %d", spec.Name, spec.Size, volume.MinSize)
	}
	if spec.DiskType != workload.SSD && spec.DiskType != workload.HDD {
		return node.Errorf(node.Invalid, "cannot create filesystem %s: disk type is %q, must be SSD or HDD", spec.Name, spec.DiskType)
	}
	return claimOf(spec).Valid("create filesystem " + spec.Name)
}

func claimOf(spec node.FilesystemSpec) node.Claim {
	return node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}
}

// adopt returns the existing file system, if it is the caller's and matches spec.
// One without a hash gets the caller's.
func (s service) adopt(p *pool, l volume.Label, spec node.FilesystemSpec) (node.Filesystem, error) {
	if err := claimOf(spec).Check("create filesystem "+spec.Name, l.Hash); err != nil {
		return node.Filesystem{}, err
	}
	if l.Size != spec.Size || p.diskType != spec.DiskType {
		return node.Filesystem{}, node.Errorf(node.Exist, "cannot create filesystem %s: there is one of %d bytes on %s, asked for are %d bytes on %s",
			spec.Name, l.Size, p.diskType, spec.Size, spec.DiskType)
	}
	if spec.Pool != "" && p.name != spec.Pool {
		return node.Filesystem{}, node.Errorf(node.Exist, "cannot create filesystem %s: there is one on pool %s, asked for is pool %s", spec.Name, p.name, spec.Pool)
	}
	if l.Hash == spec.Hash {
		return s.inspect(p, l)
	}
	f, err := p.open()
	if err != nil {
		return node.Filesystem{}, err
	}
	defer f.Close()
	l.Hash = spec.Hash
	if err := p.filesystems.Claim(f, l); err != nil {
		return node.Filesystem{}, err
	}
	return p.filesystem(f, l)
}

func (s service) inspect(p *pool, l volume.Label) (node.Filesystem, error) {
	f, err := p.open()
	if err != nil {
		return node.Filesystem{}, err
	}
	defer f.Close()
	return p.filesystem(f, l)
}

// ResizeFilesystem sets its limit, its data stays. It is on the disk when it
// returns.
func (s service) ResizeFilesystem(name string, size uint64) (node.Filesystem, error) {
	none := node.Filesystem{}
	if err := checkName("filesystem", name); err != nil {
		return none, err
	}
	if size < volume.MinSize {
		return none, node.Errorf(node.Invalid, "cannot resize filesystem %s: size is %d bytes, must be at least %d", name, size, volume.MinSize)
	}
	done, err := s.m.begin()
	if err != nil {
		return none, err
	}
	defer done()
	p, l, err := s.m.find(filesystems(), name)
	if err != nil {
		return none, err
	}
	f, err := p.open()
	if err != nil {
		return none, err
	}
	defer f.Close()
	if size > l.Size {
		if err := p.mayGrow(filesystems(), l, size); err != nil {
			return none, err
		}
	}
	err = p.filesystems.Resize(f, l, size)
	s.m.changed.fire() // its label may be another although that has failed
	if err != nil {
		return none, err
	}
	l.Size = size
	return p.filesystem(f, l)
}

// ReleaseFilesystem removes it with all its data.
func (s service) ReleaseFilesystem(name string) error {
	if err := checkName("filesystem", name); err != nil {
		return err
	}
	done, err := s.m.begin()
	if err != nil {
		return err
	}
	defer done()
	p, _, err := s.m.find(filesystems(), name)
	if err != nil {
		return err
	}
	f, err := p.open()
	if err != nil {
		return err
	}
	defer f.Close()
	defer s.m.changed.fire()
	return p.filesystems.Remove(f, name)
}

// InspectFilesystem returns it with its use as of the pool's last commit,
// which is at most 30 seconds ago: making the disk commit for each question
// would let readers slow down writers.
func (s service) InspectFilesystem(name string) (node.Filesystem, error) {
	if err := checkName("filesystem", name); err != nil {
		return node.Filesystem{}, err
	}
	p, l, err := s.m.find(filesystems(), name)
	if err != nil {
		return node.Filesystem{}, err
	}
	return s.inspect(p, l)
}

// ListFilesystems returns those of all pools that can be read, by name.
func (s service) ListFilesystems() ([]node.Filesystem, error) {
	list := []node.Filesystem{}
	for p, labels := range s.m.labels(filesystems()) {
		for _, l := range labels {
			list = append(list, p.describe(l))
		}
	}
	slices.SortFunc(list, func(a, b node.Filesystem) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Status reports pools, and broken pools and devices.
func (s service) Status() (node.StorageStatus, error) { return s.m.status(), nil }

// Monitor reports each pool's use when it changes, and at least every minute.
func (s service) Monitor(ctx context.Context) <-chan node.PoolUse { return s.m.monitor(ctx) }
