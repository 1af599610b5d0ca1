package command

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/deploy"
	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
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
func fresh(w *work, p plan.Plan) []target {
	var out []target
	for _, c := range p.Changes {
		if e := w.State.Current[c.Name]; e != nil && c.Type == workload.TypeContainer && (c.Action == plan.Create || c.Action == plan.Replace) {
			out = append(out, target{c.Name, e.ID, e.Node})
		}
	}
	return out
}

// stayUp watches containers that their nodes have just started. The error is a
// FailedError when one ends within its first seconds: it is started again and again,
// which its node's "ok" doesn't say. What a node doesn't tell fails nothing.
func (s *shell) stayUp(c *cli.Context, containers []target) error {
	if len(containers) == 0 {
		return nil
	}
	s.say("watching for %s whether %s", steady, stays(containers))
	ctx, cancel := context.WithTimeout(c.Context, steady)
	defer cancel()
	ended := make([]*nodeapi.Container, len(containers))
	problems := make([]error, len(containers))
	var all sync.WaitGroup
	for i, t := range containers {
		all.Go(func() { ended[i], problems[i] = s.watchStart(ctx, c, t) })
	}
	all.Wait()
	var what []string
	for i, t := range containers {
		switch {
		case ended[i] != nil:
			what = append(what, fmt.Sprintf("%s (%s) is restarting: %s", t.label(), t.id, endText(*ended[i])))
			for _, line := range ended[i].LastLog {
				s.say("  %s", render.Line(line))
			}
		case problems[i] != nil && c.Context.Err() == nil:
			s.say("%s: cannot watch whether %s stays up: %v", t.label(), t.id, problems[i])
		}
	}
	if len(what) > 0 {
		return &deploy.FailedError{What: what}
	}
	return c.Context.Err()
}

func stays(containers []target) string {
	if len(containers) == 1 {
		return containers[0].label() + " stays up"
	}
	return fmt.Sprintf("%d containers stay up", len(containers))
}

// watchStart asks a node until ctx is over; it returns the container when that has ended by
// itself, and an error when the node never told.
func (s *shell) watchStart(ctx context.Context, c *cli.Context, t target) (*nodeapi.Container, error) {
	conn, err := s.reach(ctx, c, t.node)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	tick := time.NewTicker(stayLook)
	defer tick.Stop()
	for told := false; ; {
		v, err := conn.Status(ctx, t.id)
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

// endText says how a container ended last.
func endText(k nodeapi.Container) string {
	out := fmt.Sprintf("its last exit code is %d, restarted %d times", k.ExitCode, k.Restarts)
	for _, more := range []string{k.OOM, k.Cause} {
		if more != "" {
			out += ", " + more
		}
	}
	return out
}
