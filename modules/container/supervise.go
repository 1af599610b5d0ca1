package container

import (
	"context"
	"time"

	apievents "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/typeurl/v2"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	// defaultLook is how often all are looked at: what was missed shows then.
	defaultLook = 15 * time.Second
	// subscribeAgain is the pause after containerd's events have ended.
	subscribeAgain = 200 * time.Millisecond
	// againTime bounds one start of what has ended: what doesn't come to an end
	// is said, and tried again.
	againTime = 25 * time.Second
	// unknownExit is the exit code of what has gone without a word.
	unknownExit = 255
)

// supervise hears of each exit, and starts again what ended by itself, until
// ctx is done.
func (m *Module) supervise(ctx context.Context) error {
	m.mu.Lock()
	m.supervises = !m.closed
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.supervises = false
		for _, it := range m.items {
			m.setTimer(it)
		}
	}()
	first := true
	for ctx.Err() == nil {
		err := m.listen(ctx, first)
		if err != nil && ctx.Err() == nil {
			m.cfg.Log.Warn().Err(err).Str("type", "container").Msg("containerd's events have ended, they are asked for again")
		}
		first = first && err != nil
		select {
		case <-ctx.Done():
		case <-time.After(subscribeAgain):
		}
	}
	return nil
}

// listen hears containerd's events until they end. What happened before shows
// in a look at all.
func (m *Module) listen(ctx context.Context, first bool) error {
	c, err := m.daemon.Client(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	exits, failed := c.EventService().Subscribe(ctx, `topic=="/tasks/exit"`)
	if err := m.lookAtAll(ctx); err != nil {
		return err
	}
	if first {
		m.sweep(ctx)
	}
	// Events may begin a moment after they were asked for.
	tick := time.NewTicker(m.lookSoon())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return containerd.Error(err, "hear what containerd tells")
		case e := <-exits:
			m.heard(e)
		case <-tick.C:
			tick.Reset(m.lookAgain)
			if err := m.lookAtAll(ctx); err != nil {
				return err
			}
		}
	}
}

func (m *Module) lookSoon() time.Duration { return min(m.lookAgain, max(m.lookAgain/15, time.Second)) }

// heard takes one event: the exit of a container's first process.
func (m *Module) heard(e *events.Envelope) {
	if _, ours := m.daemon.UserOf(e.Namespace); !ours || e.Event == nil {
		return
	}
	decoded, err := typeurl.UnmarshalAny(e.Event)
	if err != nil {
		return
	}
	exit, ok := decoded.(*apievents.TaskExit)
	if !ok || exit.ID != exit.ContainerID {
		return
	}
	m.spawn(func(ctx context.Context) {
		m.ended(ctx, exit.ContainerID, exit.ExitStatus, exit.ExitedAt.AsTime())
	})
}

// lookAtAll finds what should run and doesn't.
func (m *Module) lookAtAll(ctx context.Context) error {
	seen, err := m.look(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	var gone []string
	for id, it := range m.items {
		if !it.known || !it.record.Wanted {
			continue
		}
		s, there := seen[id]
		switch {
		case !there: // taken out of containerd: the engine sees it in List
		case it.record.Next != 0:
			if it.timer == nil {
				m.setTimer(it)
			}
		case !s.runs():
			gone = append(gone, id)
		}
	}
	m.mu.Unlock()
	m.sweepUsers(ctx, seen)
	m.giveBack(ctx)
	for _, id := range gone {
		m.spawn(func(ctx context.Context) { m.ended(ctx, id, unknownExit, time.Now()) })
	}
	return nil
}

// ended notes that a container has ended by itself, and when it is started
// again. code and at are what is known when containerd knows nothing any more.
func (m *Module) ended(ctx context.Context, id string, code uint32, at time.Time) {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	it, err := m.hold(ctx, id)
	if err != nil {
		return
	}
	defer m.release(it)
	r, known := m.recordOf(id)
	if !known || !r.Wanted || r.Next != 0 {
		return
	}
	in, found, err := load(ctx, m.daemon, r.User, id)
	if err != nil {
		return // it was taken out of containerd, or that is away: the next look tells
	}
	t, status, err := task(in, found)
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
	r.exit(uint64(code), at, time.Now())
	r.OOM = m.cfg.outOfMemory(id, r.ExitCode)
	r.LastLog = m.lastWords(id)
	m.cfg.Log.Info().Str("id", id).Str("type", "container").Uint32("code", code).Str("oom", r.OOM).Time("next", time.Unix(0, r.Next)).Msg("a container has ended by itself")
	if err := m.keep(it, r); err != nil {
		m.cfg.Log.Error().Err(err).Str("id", id).Str("type", "container").Msg("an exit isn't remembered")
	}
}

func (m *Module) lastWords(id string) []string {
	lines, err := lastOf(m.cfg.Logs.Dir, id, lastLines)
	if err != nil {
		return nil
	}
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, l.Text)
	}
	return out
}

// again starts a container again whose pause is over.
func (m *Module) again(ctx context.Context, id string) {
	closing := ctx
	ctx, cancel := context.WithTimeout(ctx, againTime)
	defer cancel()
	it, err := m.hold(ctx, id)
	if err != nil {
		return
	}
	defer m.release(it)
	m.mu.Lock()
	it.timer = nil // it was the one that called
	m.mu.Unlock()
	r, known := m.recordOf(id)
	if !known || !r.Wanted || r.Next == 0 {
		return
	}
	if r.due(time.Now()) > 0 {
		m.mu.Lock()
		m.setTimer(it)
		m.mu.Unlock()
		return
	}
	// By now the log carrier has written all that it said.
	r.LastLog = m.lastWords(id)
	m.mu.Lock()
	it.record = r
	m.mu.Unlock()
	in, found, err := load(ctx, m.daemon, r.User, id)
	if node.KindOf(err) == node.NotExist {
		return // the engine sees it in List
	}
	if err == nil {
		err = m.run(in, it, found)
	}
	if err == nil || closing.Err() != nil {
		return
	}
	m.cfg.Log.Warn().Err(err).Str("id", id).Str("type", "container").Msg("a container can't be started again")
	r.fail(err.Error(), time.Now())
	if err := m.keep(it, r); err != nil {
		m.cfg.Log.Error().Err(err).Str("id", id).Str("type", "container").Msg("a failed start isn't remembered")
	}
}
