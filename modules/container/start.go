package container

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/launch"
	"github.com/croft-edge/croft/modules/container/managed"
	"github.com/croft-edge/croft/modules/container/plan"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/node"
)

// starter starts containers on request.
type starter struct {
	index    tasks.Index
	table    *managed.Table
	launcher *launch.Launcher
	viewer   viewer
	log      zerolog.Logger
}

// start starts a container; one that runs stays untouched.
func (s starter) start(ctx context.Context, id string) (node.ContainerInfo, error) {
	if err := plan.CheckID(id); err != nil {
		return node.ContainerInfo{}, err
	}
	held, err := s.table.Hold(ctx, id)
	if err != nil {
		return node.ContainerInfo{}, err
	}
	defer s.table.Release(held)
	r, known := s.table.Record(id)
	if known && held.Prepared.PID != 0 {
		info, err := s.startPrepared(s.index.Daemon.Namespace(ctx, r.User), held)
		if err == nil || node.KindOf(err) == node.Invalid {
			return info, s.recordFailure(held, r, err)
		}
		// The task may only have ended while it waited: another one is made.
	}
	in, found, err := s.index.FindOf(ctx, id, r.User)
	if err != nil {
		return node.ContainerInfo{}, err
	}
	if !known {
		return node.ContainerInfo{}, node.Errorf(node.Transient, "cannot start container %s: its record is lost, create it again", id)
	}
	if err := s.launcher.Run(in, held, found); err != nil {
		return node.ContainerInfo{}, s.recordFailure(held, r, err)
	}
	return s.viewer.inspectFound(in, found)
}

// startPrepared starts the prepared task, without asking containerd about the container. ctx has
// the user's namespace.
func (s starter) startPrepared(ctx context.Context, held *managed.Container) (node.ContainerInfo, error) {
	prepared := held.Prepared
	status, err := s.launcher.RunPrepared(ctx, held)
	if err != nil {
		return node.ContainerInfo{}, err
	}
	return s.viewer.inspectTask(ctx, prepared.Container, prepared.Task, status)
}

// recordFailure records why a container couldn't be started, and returns that.
func (s starter) recordFailure(held *managed.Container, r managed.Record, err error) error {
	if err == nil {
		return nil
	}
	r.Cause = err.Error()
	if lost := s.table.Keep(held, r); lost != nil {
		s.log.Error().Str("id", held.ID).Str("type", "container").Str("step", "start").Err(lost).Str("cause", r.Cause).Msg("cannot record a failed start")
	}
	return err
}
