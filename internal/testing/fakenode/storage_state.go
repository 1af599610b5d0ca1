package fakenode

import (
	"slices"

	"github.com/croft-edge/croft/pkg/node"
)

// Put adds file systems, or replaces those of the same names, without any check. One
// without a pool or a path gets them.
func (s *Storage) Put(all ...node.Filesystem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range all {
		if f.Pool == "" && len(s.pools) > 0 {
			i := max(0, slices.IndexFunc(s.pools, func(p node.Pool) bool { return p.DiskType == f.DiskType }))
			f.Pool = s.pools[i].Name
		}
		if f.Path == "" {
			f.Path = "/pools/" + f.Pool + "/" + f.Name
		}
		files := map[string]file{}
		if have, ok := s.have[f.Name]; ok {
			files = have.files
		}
		s.have[f.Name] = &filesystem{Filesystem: f, files: files}
	}
	s.tell()
}

// Change changes a file system, also one that nobody may change.
func (s *Storage) Change(name string, change func(f *node.Filesystem)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.have[name]; ok {
		change(&f.Filesystem)
	}
	s.tell()
}

// Filesystems are all file systems by name, also those on broken pools.
func (s *Storage) Filesystems() map[string]node.Filesystem {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]node.Filesystem{}
	for name, f := range s.have {
		out[name] = f.now()
	}
	return out
}

// Lose removes a file system behind the module's back. A zdb that has it open keeps
// its data until there is another one in its place.
func (s *Storage) Lose(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.have, name)
	s.tell()
}

// Clear removes all file systems.
func (s *Storage) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.have)
	s.tell()
}

// SetPools replaces the pools; file systems stay where they are.
func (s *Storage) SetPools(change func(pools []node.Pool) []node.Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools = change(s.pools)
	s.tell()
}

// Pools are the pools with their present use, also the broken ones.
func (s *Storage) Pools() []node.Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.pools)
	for i := range out {
		out[i] = s.inUse(out[i])
	}
	return out
}

// Break makes a pool unusable; its file systems are out of reach, until it is mended
// with an empty cause.
func (s *Storage) Break(pool, cause string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken[pool] = cause
}
