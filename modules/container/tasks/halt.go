package tasks

import (
	"context"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/moby/sys/signal"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/plan"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// grace is how long a container may take to stop before it is killed.
	grace = 10 * time.Second
	// killTime is how long a killed process may take to end.
	killTime = 20 * time.Second
	// undoTime bounds the undoing of a failed call, also when the call's context is done.
	undoTime = 30 * time.Second
)

// Halt stops a container's task with the signal that its image names, kills it after grace,
// and removes it.
func Halt(ctx context.Context, c client.Container) error {
	t, status, err := Current(ctx, c)
	if err != nil || t == nil {
		return err
	}
	ended, err := t.Wait(ctx)
	if err != nil && containerd.Kind(err) != node.NotExist {
		return containerd.Error(err, "wait for container %s", c.ID())
	}
	if status.Status == client.Running {
		labels, _ := c.Labels(ctx) // without, it is TERM
		asked := signalOf(labels[plan.LabelStop])
		if err := t.Kill(ctx, asked); err == nil {
			wait(ctx, ended, grace)
		}
	}
	return Drop(ctx, t)
}

// Drop kills a task's running processes and removes the task.
func Drop(ctx context.Context, t client.Task) error {
	ended, err := t.Wait(ctx)
	if err == nil {
		_ = t.Resume(ctx) // a paused task doesn't end; one that isn't can't be resumed
		_ = t.Kill(ctx, syscall.SIGKILL, client.WithKillAll)
		wait(ctx, ended, killTime)
	}
	if _, err := t.Delete(ctx, client.WithProcessKill); err != nil && containerd.Kind(err) != node.NotExist {
		return containerd.Error(err, "remove the task of container %s", t.ID())
	}
	return nil
}

// wait returns when the process has ended, at the latest after most.
func wait(ctx context.Context, ended <-chan client.ExitStatus, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// signalOf reads an image's stop signal, such as "SIGQUIT", "quit" or "3".
func signalOf(name string) syscall.Signal {
	if s, err := signal.ParseSignal(name); err == nil {
		return s
	}
	return syscall.SIGTERM
}

// DropExec kills an exec that still runs, and removes it.
func DropExec(ctx context.Context, p client.Process) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if ended, err := p.Wait(ctx); err == nil && p.Kill(ctx, syscall.SIGKILL) == nil {
		wait(ctx, ended, killTime)
	}
	if p.IO() != nil {
		p.IO().Cancel()
	}
	_, _ = p.Delete(ctx) // one that stays is removed with its container
}
