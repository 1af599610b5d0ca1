// Package supervise starts containers again that have ended by themselves. It hears of exits from
// containerd's events, and finds those that it missed by a regular look at all containers.
//
// It owns nothing: records, the pauses between restarts and their timers are those of package managed.
package supervise

import (
	"context"
	"strings"
	"time"

	apievents "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/typeurl/v2"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/managed"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// defaultLook is the time between two looks at all containers.
	defaultLook = 30 * time.Second
	// subscribeAgain is the pause after containerd's events have ended.
	subscribeAgain = 200 * time.Millisecond
	// settle is after how long a subscription to containerd's events has surely begun.
	settle = time.Second
	// exitTime bounds the recording of an exit.
	exitTime = 2 * time.Minute
	// restartTime bounds one restart: after it the failure is recorded, and the next one scheduled.
	restartTime = 25 * time.Second
	// unknownExit is the exit code of a container of whose exit containerd knows nothing.
	unknownExit = 255
)

// Daemon is the containerd in use.
type Daemon interface {
	tasks.Daemon
	UserOf(namespace string) (string, bool)
}

// Starter makes a held container run. ctx has the user's namespace.
type Starter interface {
	Run(ctx context.Context, held *managed.Container, c client.Container) error
}

// Exits tell more of an exit than containerd does.
type Exits interface {
	// OutOfMemory names the container's processes that the kernel has killed for memory; empty for none.
	OutOfMemory(id string, code uint64) string
	// LastLines are the last lines of its log.
	LastLines(id string) []string
}

// Sweeper removes remains of containers.
type Sweeper interface {
	// Sweep is called once, when containerd can be asked for the first time.
	Sweep(ctx context.Context)
	// AfterLook is called with the states of all containers after each look at them.
	AfterLook(ctx context.Context, all map[string]tasks.RuntimeState)
}

// Changes is told of changes of containers.
type Changes interface {
	// Tell names containers that have changed, Lost says that any may have.
	Tell(ids ...string)
	Lost()
}

// Kept is what is kept of users' things while each change of them is heard.
type Kept interface {
	// Live says that from now on Forget names the users of all changed things, Lost that it doesn't any longer.
	Live()
	Lost()
	Forget(user string)
}

// Config configures a Supervisor.
type Config struct {
	Daemon  Daemon
	Index   tasks.Index
	Changes Changes
	// Images is what is kept of images; Index has what is of containers.
	Images  Kept
	Table   *managed.Table
	Starter Starter
	Exits   Exits
	Sweeper Sweeper
	// Spawn runs a function beside, unless the module is closed.
	Spawn func(func(ctx context.Context)) bool
	Log   zerolog.Logger
}

// Supervisor starts containers again.
type Supervisor struct {
	cfg Config
	// LookEvery is the time between two looks at all containers. It may be changed before Run.
	LookEvery time.Duration
}

// New makes a Supervisor. Nothing is started again before Run.
func New(c Config) *Supervisor { return &Supervisor{cfg: c, LookEvery: defaultLook} }

// Run starts containers again until ctx is done.
func (s *Supervisor) Run(ctx context.Context) error {
	s.cfg.Table.StartTimers(func(id string) {
		s.cfg.Spawn(func(ctx context.Context) { s.restart(ctx, id) })
	})
	defer s.cfg.Table.StopTimers()
	first := true
	for ctx.Err() == nil {
		err := s.watch(ctx, first)
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn().Str("type", "container").Str("step", "watch").Err(err).Msg("the stream of containerd's events has ended: subscribing again")
		}
		first = first && err != nil
		select {
		case <-ctx.Done():
		case <-time.After(subscribeAgain):
		}
	}
	return nil
}

// watch handles containerd's events until they end. Earlier exits are found by a look at all
// containers.
func (s *Supervisor) watch(ctx context.Context, first bool) error {
	c, err := s.cfg.Daemon.Client(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() {
		s.cfg.Index.Labels.Lost()
		s.cfg.Images.Lost()
		s.cfg.Changes.Lost()
	}()
	told, failed := c.EventService().Subscribe(ctx, `topic~="^/tasks/(exit|delete|paused|resumed)$"`, `topic~="^/(containers|images)/(create|update|delete)$"`)
	if err := s.look(ctx); err != nil {
		return err
	}
	if first {
		s.cfg.Sweeper.Sweep(ctx)
	}
	// Events may begin a moment after the subscription: the second look is early, and only
	// from then on all changes are told.
	every, live := s.LookEvery, time.NewTimer(settle)
	defer live.Stop()
	tick := time.NewTimer(min(every, max(every/15, time.Second)))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return containerd.Error(err, "receive containerd's events")
		case e := <-told:
			s.handle(e)
		case <-live.C:
			s.cfg.Index.Labels.Live()
			s.cfg.Images.Live()
			s.cfg.Changes.Lost()
		case <-tick.C:
			tick.Reset(backoff.Together(every))
			if err := s.look(ctx); err != nil {
				return err
			}
		}
	}
}

// handle handles one event: it tells the change of a container, and records the exit of a container's first
// process.
func (s *Supervisor) handle(e *events.Envelope) {
	user, ours := s.cfg.Daemon.UserOf(e.Namespace)
	if !ours || e.Event == nil {
		return
	}
	switch {
	case strings.HasPrefix(e.Topic, "/images/"):
		s.cfg.Images.Forget(user)
		return
	case strings.HasPrefix(e.Topic, "/containers/"):
		s.cfg.Index.Labels.Forget(user)
	}
	decoded, err := typeurl.UnmarshalAny(e.Event)
	if err != nil {
		return
	}
	exit, ok := decoded.(*apievents.TaskExit)
	if ok && exit.ID != exit.ContainerID {
		return // of another process than the first
	}
	if id := containerOf(decoded); id != "" {
		s.cfg.Changes.Tell(id)
	}
	if !ok {
		return
	}
	s.cfg.Spawn(func(ctx context.Context) {
		s.ended(ctx, exit.ContainerID, exit.ExitStatus, exit.ExitedAt.AsTime())
	})
}

// containerOf is the ID of the container that an event is about, empty when it is about none.
func containerOf(event any) string {
	switch e := event.(type) {
	case interface{ GetContainerID() string }: // those of tasks
		return e.GetContainerID()
	case *apievents.ContainerUpdate:
		return e.ID
	case *apievents.ContainerDelete:
		return e.ID
	}
	return ""
}

// look finds the containers that should run and don't.
func (s *Supervisor) look(ctx context.Context) error {
	all, err := s.cfg.Index.All(ctx)
	if err != nil {
		return err
	}
	ended := s.cfg.Table.Unnoticed(func(id string) (runs, there bool) {
		state, there := all[id]
		return state.Runs(), there
	})
	s.cfg.Sweeper.AfterLook(ctx, all)
	for _, id := range ended {
		s.Ended(id)
	}
	return nil
}

// Ended has a container looked at of which somebody sees that it doesn't run.
func (s *Supervisor) Ended(id string) {
	s.cfg.Spawn(func(ctx context.Context) { s.ended(ctx, id, unknownExit, time.Now()) })
}

// ended records that a container has ended by itself, and schedules its restart. code and at are
// used where containerd knows nothing of the exit any more.
func (s *Supervisor) ended(ctx context.Context, id string, code uint32, at time.Time) {
	ctx, cancel := context.WithTimeout(ctx, exitTime)
	defer cancel()
	held, err := s.cfg.Table.Hold(ctx, id)
	if err != nil {
		return
	}
	defer s.cfg.Table.Release(held)
	r, known := s.cfg.Table.Record(id)
	if !known || !r.Wanted || r.Next != 0 {
		return
	}
	in, found, err := tasks.Load(ctx, s.cfg.Daemon, r.User, id)
	if err != nil {
		return // containerd has lost it, or is away: the next look tells
	}
	t, status, err := tasks.Current(in, found)
	if err != nil {
		return
	}
	if t != nil {
		switch status.Status {
		case client.Running, client.Paused, client.Pausing, client.Created:
			return
		}
		code, at = status.ExitStatus, status.ExitTime
	}
	r = managed.AfterExit(r, uint64(code), at, time.Now())
	r.OOM = s.cfg.Exits.OutOfMemory(id, r.ExitCode)
	r.LastLog = s.cfg.Exits.LastLines(id)
	s.cfg.Log.Info().Str("id", id).Str("type", "container").Str("step", "watch").Uint32("code", code).Str("oom", r.OOM).Time("next", time.Unix(0, r.Next)).Msg("a container has ended by itself")
	if err := s.cfg.Table.Keep(held, r); err != nil {
		s.cfg.Log.Error().Str("id", id).Str("type", "container").Str("step", "watch").Err(err).Msg("cannot record an exit")
	}
}

// restart starts a container again whose pause is over.
func (s *Supervisor) restart(ctx context.Context, id string) {
	closing := ctx
	ctx, cancel := context.WithTimeout(ctx, restartTime)
	defer cancel()
	held, err := s.cfg.Table.Hold(ctx, id)
	if err != nil {
		return
	}
	defer s.cfg.Table.Release(held)
	s.cfg.Table.ClearTimer(held)
	r, known := s.cfg.Table.Record(id)
	if !known || !r.Wanted || r.Next == 0 {
		return
	}
	if managed.Due(r, time.Now()) > 0 {
		s.cfg.Table.SetTimer(held)
		return
	}
	// By now the log carrier has written all of the output.
	r.LastLog = s.cfg.Exits.LastLines(id)
	s.cfg.Table.Remember(held, r)
	in, found, err := tasks.Load(ctx, s.cfg.Daemon, r.User, id)
	if kind := node.KindOf(err); kind == node.NotExist || kind == node.Exist {
		return // the engine misses it in List
	}
	if err == nil {
		err = s.cfg.Starter.Run(in, held, found)
	}
	if err == nil || closing.Err() != nil {
		return
	}
	s.cfg.Log.Warn().Str("id", id).Str("type", "container").Str("step", "restart").Err(err).Msg("cannot start a container again")
	if err := s.cfg.Table.Keep(held, managed.AfterFailedRestart(r, err.Error(), time.Now())); err != nil {
		s.cfg.Log.Error().Str("id", id).Str("type", "container").Str("step", "restart").Err(err).Msg("cannot record a failed start")
	}
}
