package provisioner

import (
	"context"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// undoDeadline bounds all of a rollback: the attempt's own context may be over.
const undoDeadline = 30 * time.Second

// Undo is a stack of what takes back an attempt's steps. Push as each step
// succeeds, only for what the attempt itself made: what it found stays.
// The zero Undo is empty. It isn't for use by several goroutines.
type Undo struct {
	steps []undoStep
}

type undoStep struct {
	name string
	run  func(ctx context.Context) error
}

// Push adds the step that takes back what name says.
func (u *Undo) Push(name string, run func(ctx context.Context) error) {
	u.steps = append(u.steps, undoStep{name, run})
}

// Rollback runs the steps, newest first, all of them, and returns cause. A step
// whose object is gone already has succeeded. When a step failed, the error
// returned is Unknown, whatever cause was: something of the attempt may still
// be there, so it has to be tried again rather than given up.
func (u *Undo) Rollback(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoDeadline)
	defer cancel()
	var failed []string
	for i := len(u.steps) - 1; i >= 0; i-- {
		err := u.steps[i].run(ctx)
		if err != nil && node.KindOf(err) != node.NotExist {
			failed = append(failed, u.steps[i].name+": "+err.Error())
		}
	}
	u.steps = nil
	if failed == nil {
		return cause
	}
	return node.Errorf(node.Unknown, "%w; cannot take back %s", cause, strings.Join(failed, "; "))
}
