package tasks

import (
	"context"
	"sync"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	taskstate "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/plan"
)

// usersAtOnce is how many users' containers are listed at the same time.
const usersAtOnce = 4

// RuntimeState is containerd's state of a container and its task.
type RuntimeState struct {
	User   string
	Labels map[string]string
	// PID is the task's first process; 0 without a task, whose status is unknown then.
	PID    uint32
	Status taskstate.Status
}

// Runs reports whether the task has a process that hasn't ended; it may be paused.
func (s RuntimeState) Runs() bool {
	return s.Status == taskstate.Status_RUNNING || s.Status == taskstate.Status_PAUSED || s.Status == taskstate.Status_PAUSING
}

// Paused reports whether the task is paused.
func (s RuntimeState) Paused() bool { return s.Status == taskstate.Status_PAUSED }

// StateOf is the state of a container whose task, nil for none, has a status.
func StateOf(ctx context.Context, c client.Container, t client.Task, status client.Status) (RuntimeState, error) {
	info, err := c.Info(ctx, client.WithoutRefreshedMetadata)
	if err != nil {
		return RuntimeState{}, containerd.Error(err, "look at container %s", c.ID())
	}
	s := RuntimeState{User: info.Labels[plan.LabelUser], Labels: info.Labels}
	if t != nil {
		s.PID, s.Status = t.Pid(), statuses()[status.Status]
	}
	return s, nil
}

// All are the states of all containers by their IDs. It makes up to three calls a user.
func (x Index) All(ctx context.Context) (map[string]RuntimeState, error) {
	users, err := x.Daemon.Users(ctx)
	if err != nil {
		return nil, err
	}
	x.Labels.Only(users)
	c, err := x.Daemon.Client(ctx)
	if err != nil {
		return nil, err
	}
	var (
		mu     sync.Mutex
		failed error
		work   sync.WaitGroup
		out    = map[string]RuntimeState{}
		slots  = make(chan struct{}, usersAtOnce)
	)
	for _, user := range users {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			seen, err := x.statesOf(x.Daemon.Namespace(ctx, user), c, user)
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

// statesOf are the states of one user's containers. ctx has the user's namespace.
func (x Index) statesOf(ctx context.Context, c *client.Client, user string) (map[string]RuntimeState, error) {
	kept, is, epoch := x.Labels.Kept(user)
	if is {
		running, err := tasksOf(ctx, c, user)
		if err != nil {
			return nil, err
		}
		if sameKeys(kept, running) {
			return states(user, kept, running), nil
		}
		x.Labels.Forget(user)
		_, _, epoch = x.Labels.Kept(user)
	}
	all, err := c.ContainerService().List(ctx, `labels."`+plan.LabelReservation+`"`)
	if err != nil {
		return nil, containerd.Error(err, "list the containers of user %s", user)
	}
	listed := map[string]map[string]string{}
	for _, one := range all {
		if one.Labels[plan.LabelReservation] == one.ID {
			listed[one.ID] = one.Labels
		}
	}
	if len(listed) == 0 {
		return map[string]RuntimeState{}, nil
	}
	// Tasks are listed after containers: one that was just made isn't shown without its task.
	running, err := tasksOf(ctx, c, user)
	if err != nil {
		return nil, err
	}
	keep(x.Labels, user, epoch, listed, func(id string) bool { return running[id] != nil })
	return states(user, listed, running), nil
}

// sameKeys reports whether both have the same keys.
func sameKeys[A, B any](a map[string]A, b map[string]B) bool {
	for key := range a {
		if _, has := b[key]; !has {
			return false
		}
	}
	return len(a) == len(b)
}

// states joins containers and tasks, both by their IDs.
func states(user string, labels map[string]map[string]string, running map[string]*taskstate.Process) map[string]RuntimeState {
	out := make(map[string]RuntimeState, len(labels))
	for id, l := range labels {
		s := RuntimeState{User: user, Labels: l}
		if t := running[id]; t != nil {
			s.PID, s.Status = t.Pid, t.Status
		}
		out[id] = s
	}
	return out
}

// tasksOf are the tasks in one user's namespace, by their containers' IDs.
func tasksOf(ctx context.Context, c *client.Client, user string) (map[string]*taskstate.Process, error) {
	listed, err := c.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return nil, containerd.Error(err, "list the tasks of the containers of user %s", user)
	}
	out := make(map[string]*taskstate.Process, len(listed.Tasks))
	for _, t := range listed.Tasks {
		// containerd 1.6 fills in one of the two.
		id := t.ContainerID
		if id == "" {
			id = t.ID
		}
		out[id] = t
	}
	return out, nil
}

func statuses() map[client.ProcessStatus]taskstate.Status {
	return map[client.ProcessStatus]taskstate.Status{
		client.Running: taskstate.Status_RUNNING, client.Created: taskstate.Status_CREATED, client.Stopped: taskstate.Status_STOPPED,
		client.Paused: taskstate.Status_PAUSED, client.Pausing: taskstate.Status_PAUSING,
	}
}
