package fakenode

import (
	"os"
	"strconv"
	"sync"
)

// place is the kind of a namespace.
type place int

const (
	nowhere place = iota
	// networkPlace is a network namespace of its own, nodePlace the node's, and
	// otherPlace a namespace of another kind.
	networkPlace
	nodePlace
	otherPlace
)

// places are the files that keep namespaces, and the processes with one of their own.
type places struct {
	mu        sync.Mutex
	files     map[string]place
	processes map[uint64]bool
	last      uint64
}

func newPlaces() *places {
	return &places{files: map[string]place{}, processes: map[uint64]bool{}}
}

// next is a path that nothing else has.
func (p *places) next(prefix string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	return prefix + strconv.FormatUint(p.last, 10)
}

// process makes a process. Its ID is above those of the test's own machine.
func (p *places) process() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	pid := 1<<30 + p.last
	p.processes[pid] = true
	return pid
}

// end ends a process.
func (p *places) end(pid uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.processes, pid)
}

func (p *places) keep(path string, kind place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files[path] = kind
}

func (p *places) forget(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.files, path)
}

// ofFile is the kind of the namespace that a file keeps.
func (p *places) ofFile(path string) place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.files[path]
}

// ofProcess is the kind of a process's network namespace. The test's own process
// stands for the node's.
func (p *places) ofProcess(pid uint64) place {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.processes[pid]:
		return networkPlace
	case pid == uint64(os.Getpid()):
		return nodePlace
	}
	return nowhere
}
