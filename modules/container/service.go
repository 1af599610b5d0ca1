package container

import (
	"context"
	"time"

	"github.com/croft-edge/croft/modules/container/logs"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// changeTime bounds a change, lookTime a look.
	changeTime = 2 * time.Minute
	lookTime   = 20 * time.Second
	// mostLines is how many log lines are given at once.
	mostLines = 10000
)

// service is the module as node.Containers.
type service struct{ m *Module }

// within is a call's context. A closed module's calls end at once.
func (s service) within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.m.ctx, d)
}

// Create implements node.Containers.
func (s service) Create(asked node.ContainerSpec) (node.ContainerInfo, error) {
	ctx, cancel := s.within(changeTime)
	defer cancel()
	return s.m.create(ctx, asked)
}

// Start implements node.Containers.
func (s service) Start(id string) (node.ContainerInfo, error) {
	ctx, cancel := s.within(changeTime)
	defer cancel()
	return s.m.start(ctx, id)
}

// Inspect implements node.Containers.
func (s service) Inspect(id string) (node.ContainerInfo, error) {
	ctx, cancel := s.within(lookTime)
	defer cancel()
	return s.m.inspect(ctx, id)
}

// Delete implements node.Containers.
func (s service) Delete(id string) error {
	ctx, cancel := s.within(changeTime)
	defer cancel()
	return s.m.remove(ctx, id)
}

// List implements node.Containers.
func (s service) List() ([]node.ContainerInfo, error) {
	ctx, cancel := s.within(lookTime)
	defer cancel()
	return s.m.list(ctx)
}

// Logs implements node.Containers.
func (s service) Logs(id string, lines uint64) ([]node.LogLine, error) {
	ctx, cancel := s.within(lookTime)
	defer cancel()
	if _, err := s.m.cfg.owner(ctx, s.m.daemon, id); err != nil {
		return nil, err
	}
	return lastOf(s.m.cfg.Logs.Dir, id, int(min(lines, mostLines)))
}

// Stats implements node.Containers.
func (s service) Stats(id string) (node.ContainerStats, error) {
	ctx, cancel := s.within(lookTime)
	defer cancel()
	return s.m.cfg.stats(ctx, s.m.daemon, id)
}

// Status implements node.Containers.
func (s service) Status() (node.ContainerStatus, error) {
	ctx, cancel := s.within(lookTime)
	defer cancel()
	out := node.ContainerStatus{Runc: s.m.runcVersion, Cgroup: uint64(s.m.host.Cgroup), Missing: s.m.host.Missing()}
	var err error
	if out.Containerd, out.Version, out.Own, err = s.m.daemon.Status(); err != nil {
		out.Error = err.Error()
	}
	if carrier := s.m.outputs.Running(); carrier != nil {
		out.LogCarrier = uint64(carrier.PID())
		out.LogCarrierMemory, _ = carrier.Memory(ctx) // it may end just now
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	for _, it := range s.m.items {
		if it.known {
			out.Containers++
		}
	}
	return out, nil
}

// lastOf are the last lines of a container; one that never said anything has none.
func lastOf(dir, id string, n int) ([]node.LogLine, error) {
	lines, err := logs.Last(dir, id, n)
	if node.KindOf(err) == node.NotExist || err == nil && lines == nil {
		return []node.LogLine{}, nil
	}
	return lines, err
}
