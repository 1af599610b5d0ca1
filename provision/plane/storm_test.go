package plane

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/controller"

	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
)

// TestAStormOfChanges: however many things change at once, and on one processor, the controllers, whose inputs they are, run on.
func TestAStormOfChanges(t *testing.T) {
	const many = 4000
	for _, processors := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d processors", processors), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
			p := open(t, Config{})
			engine := newEngine()
			looks := make(chan struct{}, 1)
			p.Add(engine, &probe{name: "Looker", inputs: []controller.Input{weak(&work.Workload{}), weak(&work.Event{})}, do: func(context.Context, controller.Runtime) error {
				rouse(looks)
				return nil
			}})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			var all []work.WorkloadSpec
			for i := range many {
				all = append(all, work.WorkloadSpec{ID: fmt.Sprintf("%d-1", i+1), Type: workload.TypeVolume, User: userID, Phase: "deployed"})
				engine.Event(work.EventSpec{Kind: work.Warning, Reason: work.ReasonDrifted, Object: fmt.Sprintf("volume/%d-1", i+1), User: userID, Last: time.Now()})
			}
			engine.Workloads(all, nil)
			engine.Workloads(nil, nil) // all are there
			until(t, "all are shown", func() bool { return len(ended) > 0 || engine.Restored() })
			<-looks
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
