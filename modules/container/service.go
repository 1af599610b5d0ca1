package container

import (
	"context"
	"time"

	"github.com/croft-edge/croft/modules/container/managed"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// changeTime bounds a call that changes a container, lookTime one that doesn't.
	changeTime = 2 * time.Minute
	lookTime   = 20 * time.Second
	// mostLines is how many log lines are given at once.
	mostLines = 10000
	// lastLines are shown of a container's log before its last exit.
	lastLines = 20
)

// service implements node.Containers.
type service struct {
	background *background
	creator    creator
	starter    starter
	remover    remover
	viewer     viewer
	index      tasks.Index
	logDir     string
	status     statusReader
}

// within is a call's context. A closed module's calls end at once.
func (s service) within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.background.ctx, d)
}

// Create implements node.Containers.
func (s service) Create(asked node.ContainerSpec) (node.ContainerInfo, error) {
	ctx, cancel := s.within(changeTime)
	defer cancel()
	return s.creator.create(ctx, asked)
}

// Start implements node.Containers.
func (s service) Start(id string) (node.ContainerInfo, error) {
	ctx, cancel := s.within(changeTime)
	defer cancel()
	return s.starter.start(ctx, id)
}

// Inspect implements node.Containers.
func (s service) Inspect(id string) (node.ContainerInfo, error) {
	ctx, cancel := s.within(lookTime)
	defer cancel()
	return s.viewer.inspect(ctx, id)
}

// Delete implements node.Containers.
func (s service) Delete(id string) error {
	ctx, cancel := s.within(changeTime)
	defer cancel()
	return s.remover.remove(ctx, id)
}

// List implements node.Containers.
func (s service) List() ([]node.ContainerInfo, error) {
	ctx, cancel := s.within(lookTime)
	defer cancel()
	return s.viewer.list(ctx)
}

// Logs implements node.Containers.
func (s service) Logs(id string, lines uint64) ([]node.LogLine, error) {
	ctx, cancel := s.within(lookTime)
	defer cancel()
	if _, err := s.index.User(ctx, id); err != nil {
		return nil, err
	}
	return lastOf(s.logDir, id, int(min(lines, mostLines)))
}

// Stats implements node.Containers.
func (s service) Stats(id string) (node.ContainerStats, error) {
	ctx, cancel := s.within(lookTime)
	defer cancel()
	return s.index.Stats(ctx, id)
}

// Status implements node.Containers.
func (s service) Status() (node.ContainerStatus, error) {
	ctx, cancel := s.within(lookTime)
	defer cancel()
	return s.status.read(ctx), nil
}

// statusReader reads how the module itself is.
type statusReader struct {
	daemon interface {
		Status() (address, version string, own bool, err error)
	}
	outputs interface{ Running() *logs.Carrier }
	table   *managed.Table
	runtime runtimeInfo
}

func (s statusReader) read(ctx context.Context) node.ContainerStatus {
	out := node.ContainerStatus{Runc: s.runtime.version, Cgroup: uint64(s.runtime.host.Cgroup), Missing: s.runtime.host.Missing()}
	var err error
	if out.Containerd, out.Version, out.Own, err = s.daemon.Status(); err != nil {
		out.Error = err.Error()
	}
	if carrier := s.outputs.Running(); carrier != nil {
		out.LogCarrier = uint64(carrier.PID())
		out.LogCarrierMemory, _ = carrier.Memory(ctx) // it may end just now
	}
	out.Containers = uint64(s.table.Count())
	return out
}

// lastOf are the last lines of a container's log, which may be missing.
func lastOf(dir, id string, n int) ([]node.LogLine, error) {
	lines, err := logs.Last(dir, id, n)
	if node.KindOf(err) == node.NotExist || err == nil && lines == nil {
		return []node.LogLine{}, nil
	}
	return lines, err
}
