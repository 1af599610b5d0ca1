package container

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	taskstate "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/pkg/node"
)

// lookers is how many users are asked for at once.
const lookers = 4

// sight is what containerd knows of a container.
type sight struct {
	user   string
	labels map[string]string
	pid    uint32
	state  taskstate.Status
}

func (s sight) runs() bool {
	return s.state == taskstate.Status_RUNNING || s.state == taskstate.Status_PAUSED || s.state == taskstate.Status_PAUSING
}

// look is what containerd knows of all containers: two calls a user.
func (m *Module) look(ctx context.Context) (map[string]sight, error) {
	users, err := m.daemon.Users(ctx)
	if err != nil {
		return nil, err
	}
	c, err := m.daemon.Client(ctx)
	if err != nil {
		return nil, err
	}
	var (
		mu     sync.Mutex
		failed error
		work   sync.WaitGroup
		out    = map[string]sight{}
		slots  = make(chan struct{}, lookers)
	)
	for _, user := range users {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			seen, err := lookAt(m.daemon.Namespace(ctx, user), c, user)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
			}
			for id, s := range seen {
				out[id] = s
			}
		})
	}
	work.Wait()
	return out, failed
}

func lookAt(ctx context.Context, c *client.Client, user string) (map[string]sight, error) {
	all, err := c.ContainerService().List(ctx, `labels."`+labelReservation+`"`)
	if err != nil {
		return nil, containerd.Error(err, "list the containers of user %s", user)
	}
	out := map[string]sight{}
	for _, one := range all {
		if one.Labels[labelReservation] == one.ID {
			out[one.ID] = seenOf(user, one)
		}
	}
	if len(out) == 0 {
		return out, nil
	}
	running, err := c.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return nil, containerd.Error(err, "list what runs in the containers of user %s", user)
	}
	for _, t := range running.Tasks {
		// containerd 1.6 fills in one of the two.
		id := t.ContainerID
		if id == "" {
			id = t.ID
		}
		if s, ok := out[id]; ok {
			s.pid, s.state = t.Pid, t.Status
			out[id] = s
		}
	}
	return out, nil
}

func seenOf(user string, c containers.Container) sight { return sight{user: user, labels: c.Labels} }

// list returns all containers, without their last log lines.
func (m *Module) list(ctx context.Context) ([]node.ContainerInfo, error) {
	seen, err := m.look(ctx)
	if err != nil {
		return nil, err
	}
	drifts, err := m.roots.CheckAll()
	if err != nil {
		return nil, err
	}
	out := make([]node.ContainerInfo, 0, len(seen))
	for id, s := range seen {
		drift, standing := drifts[id]
		if !standing {
			drift = "nothing that it stands on is there"
		}
		info := m.info(id, s, drift)
		info.LastLog = nil
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b node.ContainerInfo) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// inspect returns one container.
func (m *Module) inspect(ctx context.Context, id string) (node.ContainerInfo, error) {
	in, found, err := m.cfg.find(ctx, m.daemon, id)
	if err != nil {
		return node.ContainerInfo{}, err
	}
	return m.inspectIn(in, found)
}

// inspectIn returns a container that was found. ctx has its user's namespace.
func (m *Module) inspectIn(in context.Context, found client.Container) (node.ContainerInfo, error) {
	t, status, err := task(in, found)
	if err != nil {
		return node.ContainerInfo{}, err
	}
	return m.shown(in, found, t, status)
}

// shown returns a container whose task, nil for none, was looked at.
func (m *Module) shown(in context.Context, found client.Container, t client.Task, status client.Status) (node.ContainerInfo, error) {
	id := found.ID()
	info, err := found.Info(in, client.WithoutRefreshedMetadata)
	if err != nil {
		return node.ContainerInfo{}, containerd.Error(err, "look at container %s", id)
	}
	s := seenOf(info.Labels[labelUser], info)
	if t != nil {
		s.pid, s.state = t.Pid(), states()[status.Status]
	}
	drift, err := m.roots.Check(id)
	if node.KindOf(err) == node.NotExist {
		drift, err = "nothing that it stands on is there", nil
	}
	if err != nil {
		return node.ContainerInfo{}, err
	}
	return m.info(id, s, drift), nil
}

func states() map[client.ProcessStatus]taskstate.Status {
	return map[client.ProcessStatus]taskstate.Status{
		client.Running: taskstate.Status_RUNNING, client.Created: taskstate.Status_CREATED, client.Stopped: taskstate.Status_STOPPED,
		client.Paused: taskstate.Status_PAUSED, client.Pausing: taskstate.Status_PAUSING,
	}
}

// info puts together what containerd, the record and the mounts say.
func (m *Module) info(id string, s sight, drift string) node.ContainerInfo {
	r, known := m.recordOf(id)
	out := node.ContainerInfo{
		ID: id, User: s.labels[labelUser], Hash: s.labels[labelHash], Image: s.labels[labelImage], Namespace: s.labels[labelNamespace], Volumes: volumes(s.labels),
		Restarts: r.Restarts, ExitCode: r.ExitCode, Ended: r.Ended, Next: r.Next, Cause: r.Cause, OOM: r.OOM, LastLog: r.LastLog, Drift: drift,
	}
	// One that is being started again runs once that is in its record.
	running := s.runs() && r.Next == 0
	if running {
		out.PID = uint64(s.pid)
	}
	switch {
	case !known:
		out.Drift = join(out.Drift, "what it was made from is lost")
	case s.state == taskstate.Status_PAUSED:
		out.Drift = join(out.Drift, "it is paused")
	case r.Wanted && !s.runs() && r.Next == 0:
		// It has ended just now; whoever supervises is told, in case it wasn't.
		m.spawn(func(ctx context.Context) { m.ended(ctx, id, unknownExit, time.Now()) })
	}
	switch {
	case running && out.Drift == "":
		out.State = node.ContainerRunning
	case out.Drift != "":
		out.State = node.ContainerBroken
	case r.Wanted:
		out.State = node.ContainerWaiting
	default:
		out.State = node.ContainerCreated
	}
	return out
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
