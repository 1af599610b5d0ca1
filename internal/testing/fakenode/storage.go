package fakenode

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// minSize is the least size of a file system in bytes, and what an empty pool uses.
const minSize = 1 << 20

// Storage is the storage module's file systems; its virtual disks are VDisks. It implements node.Storage.
type Storage struct {
	calls   *Calls
	mu      sync.Mutex
	pools   []node.Pool
	broken  map[string]string
	have    map[string]*filesystem
	disks   map[string]*vdisk
	changed chan struct{}
	// onErase is called with the path of a file system that is released or new.
	onErase func(path string)
}

var _ node.Storage = (*Storage)(nil)

// filesystem is a file system with its files: sizes, or short contents.
type filesystem struct {
	node.Filesystem
	files map[string]file
}

func (f *filesystem) used() (sum uint64) {
	for _, one := range f.files {
		sum += one.size
	}
	return sum
}

// NewStorage has empty pools, of which it needs Name, DiskType and Offered.
func NewStorage(calls *Calls, pools ...node.Pool) *Storage {
	s := &Storage{calls: calls, broken: map[string]string{}, have: map[string]*filesystem{}, disks: map[string]*vdisk{}, changed: make(chan struct{}), onErase: func(string) {}}
	for _, p := range pools {
		p.Path, p.Devices, p.Total = "/pools/"+p.Name, []string{"/dev/" + p.Name}, max(p.Total, p.Offered)
		s.pools = append(s.pools, p)
	}
	return s
}

// CreateFilesystem implements node.Storage.
func (s *Storage) CreateFilesystem(spec node.FilesystemSpec) (node.Filesystem, error) {
	return answer(s.calls, "Storage.CreateFilesystem", spec.Name, func() (node.Filesystem, error) {
		what, claim := "create filesystem "+spec.Name, node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}
		if err := checkFilesystem(what, spec); err != nil {
			return node.Filesystem{}, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if f, ok := s.have[spec.Name]; ok {
			return s.adopt(what, f, spec, claim)
		}
		p, err := s.choose(what, spec)
		if err != nil {
			return node.Filesystem{}, err
		}
		f := &filesystem{files: map[string]file{}, Filesystem: node.Filesystem{
			Name: spec.Name, Path: p.Path + "/" + spec.Name, Pool: p.Name, DiskType: p.DiskType, Size: spec.Size, Hash: spec.Hash,
		}}
		s.have[spec.Name] = f
		s.onErase(f.Path)
		s.tell()
		return f.now(), nil
	})
}

func checkFilesystem(what string, spec node.FilesystemSpec) error {
	if err := checkName("create filesystem", spec.Name); err != nil {
		return err
	}
	if err := (node.Claim{Hash: spec.Hash}).Valid(what); err != nil {
		return err
	}
	if spec.Size < minSize {
		return node.Errorf(node.Invalid, "cannot %s: size is %d bytes, must be at least %d", what, spec.Size, minSize)
	}
	if spec.DiskType != workload.SSD && spec.DiskType != workload.HDD {
		return node.Errorf(node.Invalid, "cannot %s: disk type is %q, must be SSD or HDD", what, spec.DiskType)
	}
	return nil
}

// adopt returns an existing file system to its reservation.
func (s *Storage) adopt(what string, f *filesystem, spec node.FilesystemSpec, claim node.Claim) (node.Filesystem, error) {
	if cause := s.broken[f.Pool]; cause != "" {
		return node.Filesystem{}, node.Errorf(node.Transient, "cannot %s: pool %s is broken: %s", what, f.Pool, cause)
	}
	if err := claim.Check(what, f.Hash); err != nil {
		return node.Filesystem{}, err
	}
	if f.Size != spec.Size || f.DiskType != spec.DiskType || spec.Pool != "" && spec.Pool != f.Pool {
		return node.Filesystem{}, node.Errorf(node.Exist, "cannot %s: there is one of %d bytes on %s pool %s, asked for are %d bytes on %s pool %s",
			what, f.Size, f.DiskType, f.Pool, spec.Size, spec.DiskType, spec.Pool)
	}
	f.Hash = spec.Hash
	return f.now(), nil
}

// choose returns the first pool with room for a new file system.
func (s *Storage) choose(what string, spec node.FilesystemSpec) (node.Pool, error) {
	var names, offers, broken []string
	free, suits := uint64(0), 0
	for _, p := range s.pools {
		cause := s.broken[p.Name]
		switch {
		case spec.Pool != "" && p.Name != spec.Pool:
			names = append(names, p.Name)
			continue
		case spec.Pool != "" && p.DiskType != spec.DiskType:
			return p, node.Errorf(node.Refused, "cannot %s: pool %s is of type %s, asked for is %s", what, p.Name, p.DiskType, spec.DiskType)
		case p.DiskType != spec.DiskType:
			offers = append(offers, string(p.DiskType))
			continue
		case cause != "":
			broken = append(broken, p.Name+" is broken: "+cause)
			continue
		}
		suits++
		room := p.Offered - s.reserved(p.Name)
		if spec.Size <= room {
			return p, nil
		}
		free = max(free, room)
	}
	where := string(spec.DiskType) + " pools"
	if spec.Pool != "" {
		where = "pool " + spec.Pool
	}
	switch {
	case suits > 0:
		return node.Pool{}, node.Errorf(node.NoSpace, "cannot %s: needs %s, free are %s on %s", what, bytes(spec.Size), bytes(free), where)
	case len(broken) > 0:
		return node.Pool{}, node.Errorf(node.Transient, "cannot %s: pool %s", what, strings.Join(broken, ", "))
	case spec.Pool != "":
		return node.Pool{}, node.Errorf(node.Refused, "cannot %s: pool is %q, this node has %s", what, spec.Pool, strings.Join(names, ", "))
	}
	return node.Pool{}, node.Errorf(node.Refused, "cannot %s: disk type %s: this node offers %s", what, spec.DiskType, strings.Join(offers, ", "))
}

// ReleaseFilesystem implements node.Storage.
func (s *Storage) ReleaseFilesystem(name string) error {
	return carryOut(s.calls, "Storage.ReleaseFilesystem", name, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		f, err := s.find("release filesystem", name)
		if err != nil {
			return err
		}
		delete(s.have, name)
		s.onErase(f.Path)
		s.tell()
		return nil
	})
}

// ResizeFilesystem implements node.Storage.
func (s *Storage) ResizeFilesystem(name string, size uint64) (node.Filesystem, error) {
	return answer(s.calls, "Storage.ResizeFilesystem", name, func() (node.Filesystem, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := checkName("resize filesystem", name); err != nil {
			return node.Filesystem{}, err
		}
		if size < minSize {
			return node.Filesystem{}, node.Errorf(node.Invalid, "cannot resize filesystem %s: size is %d bytes, must be at least %d", name, size, minSize)
		}
		f, err := s.find("resize filesystem", name)
		if err != nil {
			return node.Filesystem{}, err
		}
		what := "resize filesystem " + name + " from " + bytes(f.Size) + " to " + bytes(size)
		if free := s.pool(f.Pool).Offered - s.reserved(f.Pool); size > f.Size && size-f.Size > free {
			return node.Filesystem{}, node.Errorf(node.NoSpace, "cannot %s: needs %s more, free are %s on pool %s", what, bytes(size-f.Size), bytes(free), f.Pool)
		}
		if used := f.used(); size < f.Size && size < used {
			return node.Filesystem{}, node.Errorf(node.Busy, "cannot %s: it holds %s", what, bytes(used))
		}
		f.Size = size
		s.tell()
		return f.now(), nil
	})
}

// InspectFilesystem implements node.Storage.
func (s *Storage) InspectFilesystem(name string) (node.Filesystem, error) {
	return answer(s.calls, "Storage.InspectFilesystem", name, func() (node.Filesystem, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f, err := s.find("find filesystem", name)
		if err != nil {
			return node.Filesystem{}, err
		}
		return f.now(), nil
	})
}

// ListFilesystems implements node.Storage.
func (s *Storage) ListFilesystems() ([]node.Filesystem, error) {
	return answer(s.calls, "Storage.ListFilesystems", "", func() ([]node.Filesystem, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		out := []node.Filesystem{}
		for _, name := range sorted(s.have) {
			if f := s.have[name]; s.broken[f.Pool] == "" {
				out = append(out, f.Filesystem)
			}
		}
		return out, nil
	})
}

// Status implements node.Storage.
func (s *Storage) Status() (node.StorageStatus, error) {
	return answer(s.calls, "Storage.Status", "", func() (node.StorageStatus, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		out := node.StorageStatus{Pools: []node.Pool{}, Quota: "simple"}
		for _, p := range s.pools {
			if cause := s.broken[p.Name]; cause != "" {
				out.BrokenPools = append(out.BrokenPools, node.BrokenPool{Name: p.Name, DiskType: p.DiskType, Cause: cause})
				continue
			}
			out.Pools = append(out.Pools, s.inUse(p))
		}
		return out, nil
	})
}

// Monitor implements node.Storage.
func (s *Storage) Monitor(ctx context.Context) <-chan node.PoolUse {
	out := make(chan node.PoolUse)
	go func() {
		defer close(out)
		for {
			s.mu.Lock()
			changed, pools := s.changed, slices.Clone(s.pools)
			for i := range pools {
				pools[i] = s.inUse(pools[i])
			}
			s.mu.Unlock()
			for _, p := range pools {
				select {
				case out <- node.PoolUse{Name: p.Name, Total: p.Total, Used: p.Used, Reserved: p.Reserved}:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-changed:
			case <-time.After(time.Minute):
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// find returns a file system on a pool that works. The caller holds mu.
func (s *Storage) find(what, name string) (*filesystem, error) {
	if err := checkName(what, name); err != nil {
		return nil, err
	}
	f, ok := s.have[name]
	if !ok {
		return nil, node.Errorf(node.NotExist, "cannot %s %s: there is none", what, name)
	}
	if cause := s.broken[f.Pool]; cause != "" {
		return nil, node.Errorf(node.Transient, "cannot %s %s: pool %s is broken: %s", what, name, f.Pool, cause)
	}
	return f, nil
}

func (s *Storage) pool(name string) node.Pool {
	for _, p := range s.pools {
		if p.Name == name {
			return p
		}
	}
	return node.Pool{}
}

// reserved is the sum of the sizes promised on a pool.
func (s *Storage) reserved(pool string) (sum uint64) {
	for _, f := range s.have {
		if f.Pool == pool {
			sum += f.Size
		}
	}
	for _, d := range s.disks {
		if d.Pool == pool {
			sum += diskRoom(d.Size)
		}
	}
	return sum
}

// inUse is a pool with its present use.
func (s *Storage) inUse(p node.Pool) node.Pool {
	p.Reserved, p.Used = s.reserved(p.Name), minSize
	for _, f := range s.have {
		if f.Pool == p.Name {
			p.Used += f.used()
		}
	}
	for _, d := range s.disks {
		if d.Pool == p.Name {
			p.Used += d.now().Used
		}
	}
	return p
}

// tell wakes the readers of Monitor. The caller holds mu.
func (s *Storage) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// now is the file system with its present use.
func (f *filesystem) now() node.Filesystem {
	out := f.Filesystem
	out.Used = f.used()
	return out
}
