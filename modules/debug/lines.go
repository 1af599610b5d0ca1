package debug

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// demandEvery is how often forwarding processes are told that lines are still wanted;
// a process that isn't told so for demandFor stops.
const (
	demandEvery = 5 * time.Second
	demandFor   = 3 * demandEvery
)

// Append implements node.LogLines.
func (m *Module) Append(batch node.LogBatch) (node.LogDemand, error) {
	streams := *m.now.Load()
	for _, s := range streams {
		s.queue.lose(batch.Dropped)
	}
	if len(streams) > 0 {
		for _, text := range batch.Lines {
			m.offer(newLine(text))
		}
	}
	return node.LogDemand{Wanted: len(streams) > 0}, nil
}

// Demand implements node.LogLines.
func (m *Module) Demand(ctx context.Context) <-chan node.LogDemand {
	out := make(chan node.LogDemand)
	go func() {
		defer close(out)
		again := time.NewTicker(demandEvery)
		defer again.Stop()
		for {
			demand, changed := m.demand()
			select {
			case out <- demand:
			case <-ctx.Done():
				return
			}
			tick := again.C
			if !demand.Wanted {
				tick = nil
			}
			select {
			case <-changed:
			case <-tick:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func (m *Module) demand() (node.LogDemand, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return node.LogDemand{Wanted: len(m.streams) > 0}, m.changed
}
