package container

import (
	"context"
	"slices"

	"github.com/containerd/containerd/v2/client"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/pkg/node"
)

// owner is whose a container is. The hash is empty when it is no reservation's,
// or was made by a croft that wrote none.
type owner struct{ user, hash string }

// owner is the user whose container has that ID. NotExist when there is none.
func (c Config) owner(ctx context.Context, d connection, id string) (string, error) {
	have, err := c.whose(ctx, d, id)
	return have.user, err
}

// whose says whose container has that ID, by containerd's word: the record only
// says who is asked first. NotExist when there is none.
func (c Config) whose(ctx context.Context, d connection, id string) (owner, error) {
	if err := checkID(id); err != nil {
		return owner{}, err
	}
	users, err := d.Users(ctx)
	if err != nil {
		return owner{}, err
	}
	to, err := d.Client(ctx)
	if err != nil {
		return owner{}, err
	}
	if r, err := c.readRecord(id); err == nil && slices.Contains(users, r.User) {
		users = append([]string{r.User}, users...)
	}
	for _, user := range users {
		info, err := to.ContainerService().Get(d.Namespace(ctx, user), id)
		switch {
		case err == nil && info.Labels[labelReservation] == id:
			return owner{user: user, hash: info.Labels[labelHash]}, nil
		case err != nil && containerd.Kind(err) != node.NotExist:
			return owner{}, containerd.Error(err, "look for container %s", id)
		}
	}
	return owner{}, node.Errorf(node.NotExist, "cannot find container %s: there is none", id)
}

// find is the container of that ID, with the context for calls on it.
func (c Config) find(ctx context.Context, d connection, id string) (context.Context, client.Container, error) {
	user, err := c.owner(ctx, d, id)
	if err != nil {
		return ctx, nil, err
	}
	return load(ctx, d, user, id)
}

// load is a user's container. NotExist when there is none.
func load(ctx context.Context, d connection, user, id string) (context.Context, client.Container, error) {
	c, err := d.Client(ctx)
	if err != nil {
		return ctx, nil, err
	}
	ctx = d.Namespace(ctx, user)
	found, err := c.LoadContainer(ctx, id)
	if err != nil {
		return ctx, nil, containerd.Error(err, "find container %s", id)
	}
	return ctx, found, nil
}

// task is what runs in a container, or has run, nil when there is nothing.
func task(ctx context.Context, c client.Container) (client.Task, client.Status, error) {
	t, err := c.Task(ctx, nil)
	var status client.Status
	if err == nil {
		status, err = t.Status(ctx)
	}
	switch {
	case containerd.Kind(err) == node.NotExist:
		return nil, client.Status{}, nil
	case err != nil:
		return nil, client.Status{}, containerd.Error(err, "look at what runs in container %s", c.ID())
	}
	return t, status, nil
}
