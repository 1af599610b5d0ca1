package command

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/pkg/talk"
	"github.com/croft-edge/croft/pkg/workload"
)

// nodeWait is how long a node may take to say how a container is, askAtOnce how
// many are asked at a time.
const (
	nodeWait  = 2 * time.Second
	askAtOnce = 16
)

// nodeView is what a node itself says of a container, beside what it has signed.
type nodeView struct {
	// Reached is whether the node was; Problem why not.
	Reached   bool            `json:"reached"`
	Problem   string          `json:"problem,omitempty"`
	Container *talk.Container `json:"container,omitempty"`
	Image     *talk.Image     `json:"image,omitempty"`
}

// askNodes adds to the user's containers how they are. That a node isn't
// reached is told, and is no failure.
func (s *shell) askNodes(c *cli.Context, rows []row) {
	key, err := s.key(c)
	if err != nil {
		return // without a key nobody answers
	}
	ctx, cancel := context.WithTimeout(c.Context, nodeWait)
	defer cancel()
	room := make(chan struct{}, askAtOnce)
	var all sync.WaitGroup
	for i := range rows {
		r := &rows[i]
		if r.Type != workload.TypeContainer || r.User != key.ID() || r.ID == "" || workload.Ended(r.State) {
			continue
		}
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			r.At = s.askNode(ctx, c, *r)
			r.Detail = strings.TrimPrefix(r.Detail+"; "+r.At.text(), "; ")
		})
	}
	all.Wait()
}

func (s *shell) askNode(ctx context.Context, c *cli.Context, r row) *nodeView {
	conn, err := s.reach(ctx, c, r.Node)
	if err != nil {
		return &nodeView{Problem: err.Error()}
	}
	defer conn.Close()
	v, err := conn.Status(ctx, r.ID)
	if err != nil {
		return &nodeView{Problem: err.Error()}
	}
	return &nodeView{Reached: true, Container: v.Container, Image: v.Image}
}

// text says it in a few words.
func (v *nodeView) text() string {
	switch {
	case !v.Reached:
		return "node not reached"
	case v.Container != nil:
		return containerText(*v.Container)
	case v.Image != nil:
		return imageText(*v.Image)
	}
	return "the node has no container yet"
}

func containerText(k talk.Container) string {
	out := k.State
	if k.Restarts > 0 || k.Ended > 0 {
		out += fmt.Sprintf(", restarted %d times, last exit code %d", k.Restarts, k.ExitCode)
	}
	for _, more := range []string{k.Cause, k.Drift} {
		if more != "" {
			out += ", " + more
		}
	}
	return out
}

func imageText(i talk.Image) string {
	switch {
	case i.Ready:
		return "its image is there"
	case i.Unpacking:
		return "its image is being unpacked"
	case i.Total > 0:
		return fmt.Sprintf("pulling its image: %s of %s (%d%%)", amount(i.Done), amount(i.Total), 100*min(i.Done, i.Total)/i.Total)
	}
	return "pulling its image: " + amount(i.Done)
}

// lastLines shows, below a table, what containers that have ended by themselves wrote last.
func (s *shell) lastLines(c *cli.Context, rows []row) error {
	f, err := s.output(c)
	if err != nil || f != render.Table {
		return err
	}
	for _, r := range rows {
		if r.At == nil || r.At.Container == nil || len(r.At.Container.LastLog) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(s.env.Stdout, "\nlast lines of %s:\n", render.Line(r.label())); err != nil {
			return err
		}
		for _, line := range r.At.Container.LastLog {
			if _, err := fmt.Fprintln(s.env.Stdout, "  "+render.Line(line)); err != nil {
				return err
			}
		}
	}
	return nil
}
