package container

import (
	"sync"

	"github.com/croft-edge/croft/modules/container"
	"github.com/croft-edge/croft/pkg/node"
)

// lazy is the container module until it is open: callers wait for the first attempt to open it, and
// from then on get the reason why it failed.
type lazy struct {
	tried chan struct{}

	mu     sync.Mutex
	module *container.Module
	cause  error
}

func newLazy() *lazy { return &lazy{tried: make(chan struct{})} }

// set records the outcome of an attempt to open the module.
func (l *lazy) set(m *container.Module, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.module == nil && l.cause == nil {
		close(l.tried)
	}
	l.module, l.cause = m, cause
}

// get returns the module, or the reason why there is none.
func (l *lazy) get() (*container.Module, error) {
	<-l.tried
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.module, l.cause
}

// ask calls the module, or fails if there is none.
func ask[T any](l *lazy, call func(m *container.Module) (T, error)) (T, error) {
	m, err := l.get()
	if err != nil {
		var none T
		return none, node.Errorf(node.Transient, "no container can be made now: %w", err)
	}
	return call(m)
}

func order(l *lazy, call func(m *container.Module) error) error {
	_, err := ask(l, func(m *container.Module) (struct{}, error) { return struct{}{}, call(m) })
	return err
}

// lazyContainers implements node.Containers by lazy.
type lazyContainers struct{ *lazy }

// Create implements node.Containers.
func (l lazyContainers) Create(spec node.ContainerSpec) (node.ContainerInfo, error) {
	return ask(l.lazy, func(m *container.Module) (node.ContainerInfo, error) { return m.Containers().Create(spec) })
}

// Start implements node.Containers.
func (l lazyContainers) Start(id string) (node.ContainerInfo, error) {
	return ask(l.lazy, func(m *container.Module) (node.ContainerInfo, error) { return m.Containers().Start(id) })
}

// Inspect implements node.Containers.
func (l lazyContainers) Inspect(id string) (node.ContainerInfo, error) {
	return ask(l.lazy, func(m *container.Module) (node.ContainerInfo, error) { return m.Containers().Inspect(id) })
}

// Delete implements node.Containers.
func (l lazyContainers) Delete(id string) error {
	return order(l.lazy, func(m *container.Module) error { return m.Containers().Delete(id) })
}

// List implements node.Containers.
func (l lazyContainers) List() ([]node.ContainerInfo, error) {
	return ask(l.lazy, func(m *container.Module) ([]node.ContainerInfo, error) { return m.Containers().List() })
}

// Logs implements node.Containers.
func (l lazyContainers) Logs(id string, lines uint64) ([]node.LogLine, error) {
	return ask(l.lazy, func(m *container.Module) ([]node.LogLine, error) { return m.Containers().Logs(id, lines) })
}

// Stats implements node.Containers.
func (l lazyContainers) Stats(id string) (node.ContainerStats, error) {
	return ask(l.lazy, func(m *container.Module) (node.ContainerStats, error) { return m.Containers().Stats(id) })
}

// Status implements node.Containers. Without a module, the status holds the reason.
func (l lazyContainers) Status() (node.ContainerStatus, error) {
	m, err := l.get()
	if err != nil {
		return node.ContainerStatus{Error: err.Error()}, nil
	}
	return m.Containers().Status()
}

// lazyImages implements node.Images by lazy.
type lazyImages struct{ *lazy }

// Pull implements node.Images.
func (l lazyImages) Pull(spec node.ImageSpec) (node.Image, error) {
	return ask(l.lazy, func(m *container.Module) (node.Image, error) { return m.Images().Pull(spec) })
}

// Inspect implements node.Images.
func (l lazyImages) Inspect(label string) (node.Image, error) {
	return ask(l.lazy, func(m *container.Module) (node.Image, error) { return m.Images().Inspect(label) })
}

// Release implements node.Images.
func (l lazyImages) Release(label string) error {
	return order(l.lazy, func(m *container.Module) error { return m.Images().Release(label) })
}

// List implements node.Images.
func (l lazyImages) List() ([]node.Image, error) {
	return ask(l.lazy, func(m *container.Module) ([]node.Image, error) { return m.Images().List() })
}

// Status implements node.Images.
func (l lazyImages) Status() (node.ImageStatus, error) {
	return ask(l.lazy, func(m *container.Module) (node.ImageStatus, error) { return m.Images().Status() })
}
