package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
)

// agentAway fails the first call.
type agentAway struct{ heard []node.LimitTimes }

func (a *agentAway) Count(_ context.Context, times node.LimitTimes) error {
	a.heard = append(a.heard, times)
	if len(a.heard) == 1 {
		return errors.New("away")
	}
	return nil
}

func TestModuleProcessCountsRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := limit.Times()["told"]
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		agent := &agentAway{}
		go tellLimits(ctx, "zdb", time.Second, agent)
		limit.Add("told", 2)
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if len(agent.heard) != 2 || agent.heard[1].Part != "zdb" || agent.heard[1].Times["told"] != before+2 {
			t.Errorf("the agent heard %+v", agent.heard)
		}
	})
}

// The counts go over a bus, as they do between processes.
func TestAgentCountsRefusalsOfOtherProcesses(t *testing.T) {
	carrier := bus.NewInProcess()
	defer carrier.Close()
	server, err := bus.NewServer(carrier, node.ProvisionModule, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Register[node.LimitCounts](server, bus.Object(node.LimitsObject, node.LimitsVersion), &limitCounts{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- server.Run(ctx) }()
	client := bus.NewClient(carrier, bus.Options{})
	defer client.Close()
	agent := stubs.NewLimitCountsStub(client)
	before := limit.Times()["of-another-process"]
	for _, times := range []node.LimitTimes{
		{Part: "zdb", Times: node.TimesReached{"of-another-process": 2}},
		{Part: "container", Times: node.TimesReached{"of-another-process": 3}},
		{Part: "zdb", Times: node.TimesReached{"of-another-process": 4}},
	} {
		if err := agent.Count(ctx, times); err != nil {
			t.Fatal(err)
		}
	}
	if got := limit.Times()["of-another-process"] - before; got != 7 {
		t.Errorf("%d are counted, want 4 of zdb and 3 of container", got)
	}
	if err := agent.Count(ctx, node.LimitTimes{}); node.KindOf(err) != node.Invalid {
		t.Errorf("a process without a name gives %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
