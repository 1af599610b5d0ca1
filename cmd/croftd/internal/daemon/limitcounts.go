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

// limitPause is the interval at which a module's process reports its counts of reached limits
// to the agent.
const limitPause = 10 * time.Second

// limitCounts receives the node's other processes' counts of reached limits.
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

// startLimits reports this process's counts of reached limits to the agent, when it is a
// module's.
func (d *daemon) startLimits(parts *supervise.Group) {
	if d.runs(module.Provision) {
		return
	}
	client := bus.NewClient(d.bus, d.options)
	parts.Start(supervise.Part{Name: "limits", Again: true, Run: func(ctx context.Context) error {
		tellLimits(ctx, d.Process, limitPause, stubs.NewLimitCountsStub(client))
		return client.Close()
	}})
}

// limitTeller receives the counts: the stub of node.LimitCounts.
type limitTeller interface {
	Count(ctx context.Context, times node.LimitTimes) error
}

// tellLimits reports all counts at each interval until ctx is done. Counts that an absent agent
// misses are in the next report; an agent that was started again gets all of them.
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
		_ = agent.Count(call, node.LimitTimes{Part: part, Times: times}) // the next call repeats all counts
		cancel()
	}
}
