package provisioner

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// undoDeadline bounds a whole rollback: the attempt's own context may have ended.
const undoDeadline = 30 * time.Second

// Undo is a stack of functions that take back an attempt's steps. Push one for
// each step, only for what the attempt itself makes: what it found stays.
// The zero Undo is empty. It isn't safe for concurrent use.
type Undo struct {
	steps []undoStep
}

type undoStep struct {
	name string
	run  func(ctx context.Context) error
	// guards is whether older steps need its success.
	guards bool
}

// Push adds the function that takes back the object called name.
func (u *Undo) Push(name string, run func(ctx context.Context) error) {
	u.steps = append(u.steps, undoStep{name: name, run: run})
}

// PushGuard is Push of an object that uses the older ones: as long as it can't be taken back, they stay.
func (u *Undo) PushGuard(name string, run func(ctx context.Context) error) {
	u.steps = append(u.steps, undoStep{name: name, run: run, guards: true})
}

// Rollback runs the steps, newest first, and returns cause. A step whose
// object is gone already has succeeded. When a step failed, the error
// returned is Unknown, whatever cause was: parts of the attempt may remain,
// so it must be tried again rather than given up.
func (u *Undo) Rollback(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoDeadline)
	defer cancel()
	var failed []string
	for _, step := range slices.Backward(u.steps) {
		err := step.run(ctx)
		if err == nil || node.KindOf(err) == node.NotExist {
			continue
		}
		failed = append(failed, step.name+": "+err.Error())
		if step.guards {
			break
		}
	}
	u.steps = nil
	if failed == nil {
		return cause
	}
	return node.Errorf(node.Unknown, "%w; cannot take back %s", cause, strings.Join(failed, "; "))
}
