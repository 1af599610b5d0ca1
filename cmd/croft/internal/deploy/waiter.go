package deploy

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/state"
	"github.com/croft-edge/croft/cmd/croft/internal/verdict"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// How often the explorer is asked while waiting.
const (
	firstLook = 50 * time.Millisecond
	mostLook  = 2 * time.Second
)

// FailedError says that a node answered with an error.
type FailedError struct{ What []string }

func (e *FailedError) Error() string {
	return "cannot reach the wanted state: " + strings.Join(e.What, "; ")
}

// TimeoutError lists the reservations that were still waited for when the time was over.
type TimeoutError struct{ What []string }

func (e *TimeoutError) Error() string {
	return "cannot wait any longer: " + strings.Join(e.What, "; ")
}

// UntrustedError lists the explorer's answers that can't be believed.
type UntrustedError struct{ What []string }

func (e *UntrustedError) Error() string {
	return "cannot believe the explorer: " + strings.Join(e.What, "; ")
}

// Target is a reservation that is waited for.
type Target struct {
	// Label is its name in the progress.
	Label string
	ID    string
	Node  string
	// End is whether its end is waited for, else its result.
	End bool
	// Look asks for its state now.
	Look func(ctx context.Context) (Observation, error)
	// Older asks for the ID of the replaced reservation that runs on when this one fails; may be nil.
	Older func(ctx context.Context) string
}

// Waiter waits until nodes have answered.
type Waiter struct {
	observer *Observer
	nodes    *presence
	key      sign.KeyPair
	ledger   *ledger
	log      progress
}

// Targets are the reservations that an apply or a delete has changed.
func (w *Waiter) Targets(a Applied) []Target {
	var out []Target
	for _, e := range a.Left {
		out = append(out, w.target(e, true))
	}
	for _, e := range a.Made {
		out = append(out, w.target(e, false))
	}
	return out
}

func (w *Waiter) target(e *state.Entry, end bool) Target {
	t := Target{Label: e.Name, ID: e.ID, Node: e.Node, End: end, Look: func(ctx context.Context) (Observation, error) {
		return w.observer.Entry(ctx, e)
	}}
	if !end && len(e.Before) > 0 {
		t.Older = w.older(e)
	}
	return t
}

// Wait waits until every target has come to its end: deployed or gone. ctx
// carries the time that it may take. The error is a TimeoutError, FailedError
// or UntrustedError when it is one of these.
func (w *Waiter) Wait(ctx context.Context, targets []Target) error {
	run := waiting{nodes: w.nodes, key: w.key, log: w.log, shown: map[int]string{}}
	open := make([]int, len(targets))
	for i := range targets {
		open[i] = i
	}
	for pause := firstLook; ; pause = min(pause*3/2, mostLook) {
		var still []int
		for _, i := range open {
			if !run.look(ctx, i, targets[i]) {
				still = append(still, i)
			}
		}
		open = still
		if len(open) == 0 || !sleep(ctx, pause) {
			break
		}
	}
	if err := w.ledger.save(); err != nil {
		return err
	}
	return run.verdict(ctx, open, targets)
}

// waiting is one call of Wait.
type waiting struct {
	nodes *presence
	key   sign.KeyPair
	log   progress
	// shown is the last line of each target.
	shown             map[int]string
	failed, untrusted []string
}

// look observes a target; true when it needs no more waiting.
func (w *waiting) look(ctx context.Context, i int, t Target) bool {
	o, err := t.Look(ctx)
	if err != nil {
		if ctx.Err() == nil && !later(err) {
			w.untrusted = append(w.untrusted, err.Error())
			return true
		}
		w.once(i, "%s: %v; trying again", t.Label, err)
		return false
	}
	switch {
	case o.Problem != "":
		w.untrusted = append(w.untrusted, fmt.Sprintf("%s (%s): %s", t.Label, t.ID, o.Problem))
		w.once(i, "%s: %s: %s", t.Label, o.State, o.Problem)
	case o.State == verdict.Lost:
		w.untrusted = append(w.untrusted, fmt.Sprintf("%s (%s): %s", t.Label, t.ID, Unknown(o.Expires)))
		w.once(i, "%s: %s", t.Label, Unknown(o.Expires))
	case t.End && workload.Ended(o.State):
		w.once(i, "%s: %s is %s", t.Label, t.ID, o.State)
	case !t.End && o.State == workload.StateOK:
		w.once(i, "%s: %s is deployed", t.Label, t.ID)
	case !t.End && (o.State == workload.StateError || workload.Ended(o.State) || o.State == verdict.Deleting):
		what := "is " + string(o.State) + colon(o.Error)
		if t.Older != nil {
			if older := t.Older(ctx); older != "" {
				what = fmt.Sprintf("didn't take the place of %s, which runs on%s", older, colon(o.Error))
			}
		}
		for _, line := range lastLines(w.key, o) {
			w.log.say("  %s", line)
		}
		w.failed = append(w.failed, fmt.Sprintf("%s (%s) %s", t.Label, t.ID, what))
		w.once(i, "%s: %s %s", t.Label, t.ID, what)
	default:
		w.once(i, "%s: waiting for node %s%s to %s %s%s", t.Label, t.Node, w.nodes.away(ctx, t.Node), todo(t), t.ID, colon(o.Error))
		return false
	}
	return true
}

func (w *waiting) once(i int, format string, args ...any) {
	if line := fmt.Sprintf(format, args...); w.shown[i] != line {
		w.shown[i] = line
		w.log.say("%s", line)
	}
}

func (w *waiting) verdict(ctx context.Context, open []int, targets []Target) error {
	switch {
	case len(w.untrusted) > 0:
		return &UntrustedError{What: w.untrusted}
	case len(w.failed) > 0:
		return &FailedError{What: w.failed}
	case len(open) == 0:
		return nil
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return ctx.Err()
	}
	var what []string
	for _, i := range open {
		t := targets[i]
		what = append(what, fmt.Sprintf("node %s has yet to %s %s (%s)", t.Node, todo(t), t.Label, t.ID))
	}
	return &TimeoutError{What: what}
}

// Unknown explains that the explorer doesn't know a reservation.
func Unknown(expires time.Time) string {
	return "the explorer doesn't know it; its node may have it until " + expires.UTC().Format(time.RFC3339)
}

func todo(t Target) string {
	if t.End {
		return "delete"
	}
	return "provision"
}

func colon(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// older asks for the replaced entry that runs on.
func (w *Waiter) older(e *state.Entry) func(ctx context.Context) string {
	return func(ctx context.Context) string {
		return runsInPlaceOf(e, func(b *state.Entry) (Observation, error) { return w.observer.Entry(ctx, b) })
	}
}

// lastLines are the last output lines of a failed container, which its node has sealed to
// the user.
func lastLines(key sign.KeyPair, o Observation) []string {
	var data workload.ContainerFailure
	if !o.Verified || o.Problem != "" || json.Unmarshal(o.Data, &data) != nil || data.LastLines == "" {
		return nil
	}
	box, err := hex.DecodeString(data.LastLines)
	if err != nil {
		return nil
	}
	text, err := key.Open(box)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
