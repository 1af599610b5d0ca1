package container

import (
	"context"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/moby/sys/signal"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// grace is how long a container may take to stop before it is killed.
	grace = 10 * time.Second
	// killTime is how long the kernel may take to end what was killed.
	killTime = 20 * time.Second
)

// halt stops what runs in a container as its image says, kills it after grace,
// and removes the task.
func halt(ctx context.Context, c client.Container) error {
	t, status, err := task(ctx, c)
	if err != nil || t == nil {
		return err
	}
	ended, err := t.Wait(ctx)
	if err != nil && containerd.Kind(err) != node.NotExist {
		return containerd.Error(err, "wait for container %s", c.ID())
	}
	if status.Status == client.Running {
		labels, _ := c.Labels(ctx) // without, it is TERM
		asked := signalOf(labels[labelStop])
		if err := t.Kill(ctx, asked); err == nil {
			wait(ctx, ended, grace)
		}
	}
	return drop(ctx, t)
}

// drop kills what still runs and removes the task.
func drop(ctx context.Context, t client.Task) error {
	ended, err := t.Wait(ctx)
	if err == nil {
		_ = t.Resume(ctx) // who is paused doesn't end; who isn't can't be resumed
		_ = t.Kill(ctx, syscall.SIGKILL, client.WithKillAll)
		wait(ctx, ended, killTime)
	}
	if _, err := t.Delete(ctx, client.WithProcessKill); err != nil && containerd.Kind(err) != node.NotExist {
		return containerd.Error(err, "remove what ran in container %s", t.ID())
	}
	return nil
}

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
