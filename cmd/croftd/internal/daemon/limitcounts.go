package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/supervise"
)

// limitPause is between two times that a module's process tells the agent what its
// limits have turned away.
const limitPause = 10 * time.Second

// limitCounts takes in what the limits of the node's other processes have turned away.
type limitCounts struct {
	mu    sync.Mutex
	parts map[string]*limit.Elsewhere
}

// Count implements node.LimitCounts.
func (l *limitCounts) Count(times node.LimitTimes) error {
	if times.Part == "" {
		return node.Errorf(node.Invalid, "cannot count limits: part is empty, and must name the process")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	part := l.parts[times.Part]
	if part == nil {
		if l.parts == nil {
			l.parts = map[string]*limit.Elsewhere{}
		}
		part = &limit.Elsewhere{}
		l.parts[times.Part] = part
	}
	part.Seen(times.Times)
	return nil
}

// startLimits tells the agent what the limits of this process turn away, when it is a
// module's.
func (d *daemon) startLimits(parts *supervise.Group) {
	if d.runs(module.Provision) {
		return
	}
	client := bus.NewClient(d.bus, d.options)
	parts.Start(supervise.Part{Name: "limits", Run: func(ctx context.Context) error {
		tellLimits(ctx, d.Process, limitPause, stubs.NewLimitCountsStub(client))
		return client.Close()
	}})
}

// limitTeller is who hears of the counts: the stub of node.LimitCounts.
type limitTeller interface {
	Count(ctx context.Context, times node.LimitTimes) error
}

// tellLimits tells all counts again and again, until ctx is done. While the agent is away the
// counts grow, and are told when it is back. An agent that began anew hears of them
// again, since it starts from nothing.
func tellLimits(ctx context.Context, part string, pause time.Duration, agent limitTeller) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		times := limit.Times()
		if len(times) == 0 {
			continue
		}
		call, cancel := context.WithTimeout(ctx, pause)
		_ = agent.Count(call, node.LimitTimes{Part: part, Times: times}) // the next call says it all again
		cancel()
	}
}
