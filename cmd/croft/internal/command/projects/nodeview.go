package projects

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/cmd/croft/internal/render"
	"github.com/croft-edge/croft/cmd/croft/internal/route"
	"github.com/croft-edge/croft/cmd/croft/internal/verdict"
	"github.com/croft-edge/croft/pkg/nocloud"
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

// nodeView is a node's own answer about a workload, beside its signed result that everybody
// sees. It comes over a connection on which the node has proved its key.
type nodeView struct {
	// Reached is whether the node was; Problem why not.
	Reached bool   `json:"reached"`
	Problem string `json:"problem,omitempty"`
	// Unknown is whether the node doesn't know the workload.
	Unknown bool           `json:"unknown,omitempty"`
	State   workload.State `json:"state,omitempty"`
	Phase   string         `json:"phase,omitempty"`
	// Waiting is the condition that it waits for, Reason why that isn't met yet.
	Waiting   string             `json:"waiting,omitempty"`
	Reason    string             `json:"reason,omitempty"`
	Container *nodeapi.Container `json:"container,omitempty"`
	Image     *nodeapi.Image     `json:"image,omitempty"`
	VM        *nodeapi.VM        `json:"vm,omitempty"`
}

// askNodes adds the nodes' own answers to the rows of the user's containers, VMs and unfinished
// reservations. A node that isn't reached is shown as such, and is no failure.
func askNodes(s *shell.Shell, c *cli.Context, router *route.Router, rows []row) {
	key, err := s.Key(c)
	if err != nil {
		return // without a key nobody answers
	}
	ctx, cancel := context.WithTimeout(c.Context, nodeWait)
	defer cancel()
	room := make(chan struct{}, askAtOnce)
	var all sync.WaitGroup
	for i := range rows {
		r := &rows[i]
		if r.User != key.ID() || !worthAsking(*r) {
			continue
		}
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			r.At = askNode(ctx, router, *r, s.PlainText)
			addView(r)
		})
	}
	all.Wait()
}

func askNode(ctx context.Context, router *route.Router, r row, plain func(error) string) *nodeView {
	conn, err := router.Dial(ctx, r.Node)
	if err != nil {
		return &nodeView{Problem: plain(err)}
	}
	defer conn.Close()
	v, err := conn.Status(ctx, r.ID)
	if err != nil {
		return &nodeView{Reached: node.KindOf(err) == node.NotExist, Unknown: node.KindOf(err) == node.NotExist, Problem: plain(err)}
	}
	return &nodeView{
		Reached: true, Container: v.Container, Image: v.Image, VM: v.VM,
		State: v.State, Phase: v.Phase, Waiting: v.Waiting, Reason: v.Error,
	}
}

// undone reports whether the node hasn't finished a row's reservation or deletion.
func undone(r row) bool { return r.State == verdict.Pending || r.State == verdict.Deleting }

// worthAsking reports whether a row's node is asked: about containers and VMs, unfinished
// reservations, and those that the explorer doesn't show.
func worthAsking(r row) bool {
	return r.ID != "" && (undone(r) || r.State == verdict.Unseen || r.runs() && !workload.Ended(r.State))
}

// runs reports whether the workload is one that runs.
func (r row) runs() bool {
	return r.Type == workload.TypeContainer || r.Type == workload.TypeKubernetes
}

// addView puts the node's answer, which is in r.At, into the row's state and detail.
func addView(r *row) {
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
	unfinished := undone(*r) && r.At.Reached
	if unfinished {
		r.Detail = r.At.why()
	}
	if r.Detail != "" {
		parts = append(parts, r.Detail)
	}
	if r.runs() && !(unfinished && r.At.none()) || !r.At.Reached {
		parts = append(parts, r.At.text(r.Type))
	}
	r.Detail = strings.Join(parts, "; ")
}

// why is the condition that a workload waits for, in the node's words.
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

// none reports whether the node has nothing of the workload yet.
func (v *nodeView) none() bool { return v.Container == nil && v.Image == nil && v.VM == nil }

// text is the view of a workload of that type in a few words.
func (v *nodeView) text(t workload.Type) string {
	switch {
	case v.Unknown:
		return ""
	case !v.Reached:
		return "node not reached"
	case v.Container != nil:
		return containerText(*v.Container)
	case v.Image != nil:
		return imageText(*v.Image)
	case v.VM != nil:
		return vmText(*v.VM)
	case t == workload.TypeKubernetes:
		return "the node has no VM yet"
	}
	return "the node has no container yet"
}

func vmText(vm nodeapi.VM) string {
	out := vm.State
	if vm.State == node.VMRunning {
		out = cmp.Or(vm.Guest, "booting")
		if vm.Guest != "" && vm.Guest != nocloud.Ready {
			out = "not ready: " + vm.Guest
		}
	}
	if vm.Accelerator == "tcg" {
		out += ", emulated"
	}
	if vm.Restarts > 0 || vm.Ended > 0 {
		out += fmt.Sprintf(", restarted %d times", vm.Restarts)
	}
	if vm.Cause != "" {
		out += ", " + vm.Cause
	}
	return out
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
		return "its image is ready"
	case i.Unpacking:
		return "its image is being unpacked"
	case i.Total > 0:
		return fmt.Sprintf("pulling its image: %s of %s (%d%%)", render.Bytes(i.Done), render.Bytes(i.Total), 100*min(i.Done, i.Total)/i.Total)
	}
	return "pulling its image: " + render.Bytes(i.Done)
}

// lastLog is the last lines that explain why a workload isn't well.
func (v *nodeView) lastLog() []string {
	switch {
	case v == nil:
		return nil
	case v.Container != nil:
		return v.Container.LastLog
	case v.VM != nil:
		return v.VM.LastLog
	}
	return nil
}

// lastLines prints, below a table, the last output lines of containers that ended by themselves, and of VMs that
// aren't ready.
func lastLines(s *shell.Shell, c *cli.Context, rows []row) error {
	f, err := s.Output(c)
	if err != nil || f != render.Table {
		return err
	}
	for _, r := range rows {
		lines := r.At.lastLog()
		if len(lines) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(s.Env.Stdout, "\nlast lines of %s:\n", render.Line(r.label())); err != nil {
			return err
		}
		for _, line := range lines {
			if _, err := fmt.Fprintln(s.Env.Stdout, "  "+render.Line(line)); err != nil {
				return err
			}
		}
	}
	return nil
}
