package projects

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/cmd/croft/internal/route"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/workload"
)

// A container is up when it has run for steady without ending; it is asked for
// each stayLook.
const (
	steady   = 10 * time.Second
	stayLook = 500 * time.Millisecond
)

// fresh are the containers that a plan has made.
func fresh(w *workspace.Workspace, p plan.Plan) []workspace.Target {
	var out []workspace.Target
	for _, c := range p.Changes {
		if e := w.State.Current[c.Name]; e != nil && c.Type == workload.TypeContainer && (c.Action == plan.Create || c.Action == plan.Replace) {
			out = append(out, workspace.Target{Name: c.Name, ID: e.ID, Node: e.Node})
		}
	}
	return out
}

// startWatch watches containers at their nodes.
type startWatch struct {
	router *route.Router
	say    func(format string, args ...any)
}

// stayUp watches containers that their nodes have just started. The error is a
// FailedError when one ends within its first seconds: it is started again and again,
// which its node's "ok" doesn't show. A node that doesn't answer fails nothing.
func (s startWatch) stayUp(parent context.Context, containers []workspace.Target) error {
	if len(containers) == 0 {
		return nil
	}
	s.say("watching for %s whether %s", steady, stays(containers))
	ctx, cancel := context.WithTimeout(parent, steady)
	defer cancel()
	ended := make([]*nodeapi.Container, len(containers))
	problems := make([]error, len(containers))
	var all sync.WaitGroup
	for i, t := range containers {
		all.Go(func() { ended[i], problems[i] = s.watch(ctx, t) })
	}
	all.Wait()
	var what []string
	for i, t := range containers {
		switch {
		case ended[i] != nil:
			what = append(what, fmt.Sprintf("%s (%s) is restarting: %s", t.Label(), t.ID, endText(*ended[i])))
			for _, line := range ended[i].LastLog {
				s.say("  %s", render.Line(line))
			}
		case problems[i] != nil && parent.Err() == nil:
			s.say("%s: cannot watch whether %s stays up: %v", t.Label(), t.ID, problems[i])
		}
	}
	if len(what) > 0 {
		return &deploy.FailedError{What: what}
	}
	return parent.Err()
}

func stays(containers []workspace.Target) string {
	if len(containers) == 1 {
		return containers[0].Label() + " stays up"
	}
	return fmt.Sprintf("%d containers stay up", len(containers))
}

// watch asks a node until ctx is over; it returns the container when that has ended by
// itself, and an error when the node never answered.
func (s startWatch) watch(ctx context.Context, t workspace.Target) (*nodeapi.Container, error) {
	conn, err := s.router.Dial(ctx, t.Node)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	tick := time.NewTicker(stayLook)
	defer tick.Stop()
	for told := false; ; {
		v, err := conn.Status(ctx, t.ID)
		switch {
		case err == nil && v.Container != nil && (v.Container.Restarts > 0 || v.Container.Ended > 0):
			return v.Container, nil
		case err == nil:
			told = true
		case !told && ctx.Err() == nil:
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// endText is how a container ended last.
func endText(k nodeapi.Container) string {
	out := fmt.Sprintf("its last exit code is %d, restarted %d times", k.ExitCode, k.Restarts)
	for _, more := range []string{k.OOM, k.Cause} {
		if more != "" {
			out += ", " + more
		}
	}
	return out
}
