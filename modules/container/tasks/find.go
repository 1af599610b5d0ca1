package tasks

import (
	"context"
	"slices"

	"github.com/containerd/containerd/v2/client"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/plan"
	"github.com/croft-edge/croft/pkg/node"
)

// Daemon is the containerd in use. Each user has a namespace in it.
type Daemon interface {
	Client(ctx context.Context) (*client.Client, error)
	Namespace(ctx context.Context, user string) context.Context
	Users(ctx context.Context) ([]string, error)
}

// Owner is whose a container is. The hash is empty when it is no reservation's,
// or was made by a croft that wrote none.
type Owner struct{ User, Hash string }

// Index finds containers by their IDs alone.
type Index struct {
	Daemon Daemon
	// LikelyUser is the user who probably has the container of an ID, whose namespace is searched
	// first; empty when unknown.
	LikelyUser func(id string) string
	// Labels keeps what All has listed; nil keeps nothing.
	Labels *Labels
}

// User is the user whose container has that ID. NotExist when there is none.
func (x Index) User(ctx context.Context, id string) (string, error) {
	have, err := x.Owner(ctx, id)
	return have.User, err
}

// Owner is whose container has that ID according to containerd. NotExist when there is none.
func (x Index) Owner(ctx context.Context, id string) (Owner, error) {
	if err := plan.CheckID(id); err != nil {
		return Owner{}, err
	}
	users, err := x.Daemon.Users(ctx)
	if err != nil {
		return Owner{}, err
	}
	to, err := x.Daemon.Client(ctx)
	if err != nil {
		return Owner{}, err
	}
	if likely := x.LikelyUser(id); slices.Contains(users, likely) {
		users = append([]string{likely}, users...)
	}
	for _, user := range users {
		info, err := to.ContainerService().Get(x.Daemon.Namespace(ctx, user), id)
		switch {
		case err == nil && info.Labels[plan.LabelReservation] == id:
			return Owner{User: user, Hash: info.Labels[plan.LabelHash]}, nil
		case err != nil && containerd.Kind(err) != node.NotExist:
			return Owner{}, containerd.Error(err, "look for container %s", id)
		}
	}
	return Owner{}, node.Errorf(node.NotExist, "cannot find container %s: there is none", id)
}

// Find is the container of that ID, with the context for calls on it. NotExist when there is none.
func (x Index) Find(ctx context.Context, id string) (context.Context, client.Container, error) {
	user, err := x.User(ctx, id)
	if err != nil {
		return ctx, nil, err
	}
	return Load(ctx, x.Daemon, user, id)
}

// FindOf is Find where a record says that it is user's; user may be empty.
func (x Index) FindOf(ctx context.Context, id, user string) (context.Context, client.Container, error) {
	if user != "" {
		in, found, err := Load(ctx, x.Daemon, user, id)
		if kind := node.KindOf(err); kind != node.NotExist && kind != node.Exist {
			return in, found, err
		}
	}
	return x.Find(ctx, id)
}

// Load is a user's container, with the context for calls on it. NotExist when there is none, Exist
// when the one of that ID isn't croft's.
func Load(ctx context.Context, d Daemon, user, id string) (context.Context, client.Container, error) {
	c, err := d.Client(ctx)
	if err != nil {
		return ctx, nil, err
	}
	ctx = d.Namespace(ctx, user)
	found, err := c.LoadContainer(ctx, id)
	if err != nil {
		return ctx, nil, containerd.Error(err, "find container %s", id)
	}
	info, err := found.Info(ctx, client.WithoutRefreshedMetadata)
	if err != nil {
		return ctx, nil, containerd.Error(err, "look at container %s", id)
	}
	if info.Labels[plan.LabelReservation] != id {
		return ctx, nil, node.Errorf(node.Exist, "cannot use container %s: containerd has one of that ID that isn't croft's", id)
	}
	return ctx, found, nil
}

// Current is a container's task, running or ended, and its status; nil when it has none.
func Current(ctx context.Context, c client.Container) (client.Task, client.Status, error) {
	t, err := c.Task(ctx, nil)
	var status client.Status
	if err == nil {
		status, err = t.Status(ctx)
	}
	switch {
	case containerd.Kind(err) == node.NotExist:
		return nil, client.Status{}, nil
	case err != nil:
		return nil, client.Status{}, containerd.Error(err, "look at the task of container %s", c.ID())
	}
	return t, status, nil
}
