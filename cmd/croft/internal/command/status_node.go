package command

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/cmd/croft/internal/verdict"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/workload"
)

// nodeWait is how long a node may take to say how a container is, askAtOnce how
// many are asked at a time.
const (
	nodeWait  = 2 * time.Second
	askAtOnce = 16
)

// nodeView is what a node itself says of a workload, beside what it has signed for others to
// see: over a connection that it has shown its key on.
type nodeView struct {
	// Reached is whether the node was; Problem why not.
	Reached bool   `json:"reached"`
	Problem string `json:"problem,omitempty"`
	// Unknown is whether the node doesn't know the workload.
	Unknown bool           `json:"unknown,omitempty"`
	State   workload.State `json:"state,omitempty"`
	Phase   string         `json:"phase,omitempty"`
	// Waiting is what it waits for, Reason why that isn't so yet.
	Waiting   string             `json:"waiting,omitempty"`
	Reason    string             `json:"reason,omitempty"`
	Container *nodeapi.Container `json:"container,omitempty"`
	Image     *nodeapi.Image     `json:"image,omitempty"`
}

// askNodes adds to the user's containers how they are, and to whatever isn't done why. That a node isn't
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
		if r.User != key.ID() || !r.asked() {
			continue
		}
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			r.At = s.askNode(ctx, c, *r)
			r.heard()
		})
	}
	all.Wait()
}

func (s *shell) askNode(ctx context.Context, c *cli.Context, r row) *nodeView {
	conn, err := s.reach(ctx, c, r.Node)
	if err != nil {
		return &nodeView{Problem: s.plainText(err)}
	}
	defer conn.Close()
	v, err := conn.Status(ctx, r.ID)
	if err != nil {
		return &nodeView{Reached: node.KindOf(err) == node.NotExist, Unknown: node.KindOf(err) == node.NotExist, Problem: s.plainText(err)}
	}
	return &nodeView{
		Reached: true, Container: v.Container, Image: v.Image,
		State: v.State, Phase: v.Phase, Waiting: v.Waiting, Reason: v.Error,
	}
}

// undone reports whether a row isn't what was signed yet.
func (r row) undone() bool { return r.State == verdict.Pending || r.State == verdict.Deleting }

// asked reports whether a row's node is asked: of containers, of what isn't done, and of what the
// explorer doesn't show.
func (r row) asked() bool {
	return r.ID != "" && (r.undone() || r.State == verdict.Unseen || r.Type == workload.TypeContainer && !workload.Ended(r.State))
}

// heard notes what the node has said.
func (r *row) heard() {
	if r.State == verdict.Unseen && r.At.Reached {
		r.Detail, r.State = "", verdict.Pending
		if r.At.State != "" {
			r.State = r.At.State
		}
		if r.deletion && !workload.Ended(r.State) && !r.At.Unknown {
			r.State = verdict.Deleting
		}
	}
	var parts []string
	undone := r.undone() && r.At.Reached
	if undone {
		r.Detail = r.At.why()
	}
	if r.Detail != "" {
		parts = append(parts, r.Detail)
	}
	if r.Type == workload.TypeContainer && !(undone && r.At.Container == nil && r.At.Image == nil) || !r.At.Reached {
		parts = append(parts, r.At.text())
	}
	r.Detail = strings.Join(parts, "; ")
}

// why says what a workload waits for, in the node's words.
func (v *nodeView) why() string {
	switch {
	case v.Unknown:
		return "the node doesn't know it"
	case v.Waiting != "" && v.Reason != "":
		return "waits for " + v.Waiting + ": " + v.Reason
	case v.Waiting != "":
		return "waits for " + v.Waiting
	}
	return v.Reason
}

// text says it in a few words.
func (v *nodeView) text() string {
	switch {
	case v.Unknown:
		return ""
	case !v.Reached:
		return "node not reached"
	case v.Container != nil:
		return containerText(*v.Container)
	case v.Image != nil:
		return imageText(*v.Image)
	}
	return "the node has no container yet"
}

func containerText(k nodeapi.Container) string {
	out := k.State
	if k.Restarts > 0 || k.Ended > 0 {
		out += fmt.Sprintf(", restarted %d times, last exit code %d", k.Restarts, k.ExitCode)
	}
	for _, more := range []string{k.OOM, k.Cause, k.Drift} {
		if more != "" {
			out += ", " + more
		}
	}
	return out
}

func imageText(i nodeapi.Image) string {
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
