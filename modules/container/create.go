package container

import (
	"context"

	"github.com/containerd/containerd/v2/client"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/modules/container/launch"
	"github.com/croft-edge/croft/modules/container/managed"
	"github.com/croft-edge/croft/modules/container/plan"
	"github.com/croft-edge/croft/modules/container/secret"
	"github.com/croft-edge/croft/modules/container/tasks"
	"github.com/croft-edge/croft/pkg/node"
)

// layers are the unpacked images.
type layers interface {
	Layers(ctx context.Context, label string) (image.Layers, error)
}

// creator makes containers, and brings those that exist to their plans.
type creator struct {
	index   tasks.Index
	table   *managed.Table
	images  layers
	roots   rootChecker
	secrets *secret.Store
	builder builder
	// launcher prepares the start of a made container.
	launcher *launch.Launcher
	remover  remover
	viewer   viewer
	// init is the path of croft's init; empty where it isn't installed.
	init       string
	background *background
	log        zerolog.Logger
}

// create makes a container, or makes the one of that ID right. Its start is prepared beside.
func (c creator) create(ctx context.Context, asked node.ContainerSpec) (node.ContainerInfo, error) {
	if err := plan.Check(asked); err != nil {
		return node.ContainerInfo{}, err
	}
	held, err := c.table.Hold(ctx, asked.ID)
	if err != nil {
		return node.ContainerInfo{}, err
	}
	info, fresh, err := c.createHeld(ctx, held, asked)
	if err != nil {
		c.table.Release(held)
		return node.ContainerInfo{}, err
	}
	c.prepare(held, fresh)
	return info, nil
}

// prepare makes the container's task beside, and releases the container afterwards. A failure
// is no error: Start makes the task again, and tells why it fails. fresh is nil when the container
// wasn't made just now.
func (c creator) prepare(held *managed.Container, fresh *launch.Fresh) {
	begun := c.background.spawn(func(ctx context.Context) {
		defer c.table.Release(held)
		ctx, cancel := context.WithTimeout(ctx, changeTime)
		defer cancel()
		if err := c.launcher.Prepare(ctx, held, fresh); err != nil {
			c.log.Debug().Str("id", held.ID).Str("type", "container").Str("step", "ready").Err(err).Msg("cannot prepare the task of a container")
		}
	})
	if !begun {
		c.launcher.LetGo(held.ID)
		c.table.Release(held)
	}
}

// createHeld is create for a held container. It returns the parts of a container that it has made,
// else nil.
func (c creator) createHeld(ctx context.Context, held *managed.Container, asked node.ContainerSpec) (node.ContainerInfo, *launch.Fresh, error) {
	none := node.ContainerInfo{}
	unpacked, err := c.images.Layers(ctx, asked.ID)
	if err != nil {
		return none, nil, err
	}
	p, err := plan.New(asked, unpacked, plan.Node{Init: c.init, SecretsFile: c.secrets.Path(asked.User, asked.ID)})
	if err != nil {
		return none, nil, err
	}
	if err := c.mayTake(ctx, asked); err != nil {
		return none, nil, err
	}
	if len(asked.Secrets) > 0 {
		if err := c.secrets.Put(asked.User, asked.ID, asked.Secrets); err != nil {
			return none, nil, err
		}
	}
	fresh, err := c.settle(ctx, held, p)
	if err != nil {
		return none, nil, err
	}
	if fresh != nil {
		return c.viewer.info(held.ID, tasks.RuntimeState{User: asked.User, Labels: p.Labels}, ""), fresh, nil
	}
	info, err := c.viewer.inspect(ctx, asked.ID)
	return info, nil, err
}

// mayTake is Exist when a container of that ID is somebody else's.
func (c creator) mayTake(ctx context.Context, asked node.ContainerSpec) error {
	have, err := c.index.Owner(ctx, asked.ID)
	if node.KindOf(err) == node.NotExist {
		r, known := c.table.Record(asked.ID)
		if !known {
			return nil
		}
		have, err = tasks.Owner{User: r.User, Hash: r.Hash}, nil
	}
	if err != nil {
		return err
	}
	if have.User != asked.User {
		c.log.Warn().Str("id", asked.ID).Str("user", asked.User).Str("owner", have.User).Msg("a container of that ID is another user's")
		return node.Errorf(node.Exist, "cannot make container %s: there is one of that ID that is another user's", asked.ID)
	}
	return plan.Claim(asked).Check("make container "+asked.ID, have.Hash)
}

// claim adds the hash to a container of a croft that wrote none.
func (c creator) claim(ctx context.Context, held *managed.Container, found client.Container, asked node.ContainerSpec) error {
	r, _ := c.table.Record(held.ID)
	hash := asked.Hash
	if hash == "" || r.Hash == hash {
		return nil
	}
	defer c.index.Labels.Forget(asked.User) // containerd's event comes later
	if _, err := found.SetLabels(ctx, map[string]string{plan.LabelHash: hash}); err != nil {
		return containerd.Error(err, "label container %s", held.ID)
	}
	r.Hash = hash
	return c.table.Keep(held, r)
}

// settle makes a container according to its plan; one that matches it stays untouched. It returns
// the parts of a container that it has made.
func (c creator) settle(ctx context.Context, held *managed.Container, p plan.Plan) (*launch.Fresh, error) {
	user := p.Spec.User
	in, found, err := tasks.Load(ctx, c.index.Daemon, user, held.ID)
	missing := node.KindOf(err) == node.NotExist
	switch {
	case err != nil && !missing:
		return nil, err
	case missing:
		err = c.remover.endLost(ctx, held, user)
	default:
		var matches bool
		if matches, err = c.matches(in, held, found, p); err == nil && matches {
			err = c.claim(in, held, found, p.Spec)
		}
		if err != nil || matches {
			return nil, err
		}
		c.log.Info().Str("id", held.ID).Str("type", "container").Str("step", "create").Msg("the container differs from its specification: it is made anew")
		held.Prepared = managed.PreparedTask{}
		err = c.remover.discard(in, found, user)
	}
	if err != nil {
		return nil, err
	}
	fresh, err := c.builder.build(ctx, held, p)
	switch {
	case err != nil && missing:
		c.undo(held, user)
	case err != nil:
		c.launcher.LetGo(held.ID)
	}
	return fresh, err
}

// matches reports whether a container matches its plan.
func (c creator) matches(ctx context.Context, held *managed.Container, found client.Container, p plan.Plan) (bool, error) {
	info, err := found.Info(ctx, client.WithoutRefreshedMetadata)
	if err != nil {
		return false, containerd.Error(err, "look at container %s", held.ID)
	}
	if _, known := c.table.Record(held.ID); !known || info.Labels[plan.LabelSpec] != p.Fingerprint {
		return false, nil
	}
	drift, err := c.roots.Check(held.ID)
	if node.KindOf(err) == node.NotExist {
		return false, nil
	}
	return err == nil && drift == "", err
}

// undo removes what a failed create has made.
func (c creator) undo(held *managed.Container, user string) {
	c.launcher.LetGo(held.ID) // also when containerd can't be asked for the rest
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.background.ctx), undoTime)
	defer cancel()
	err := c.remover.clear(ctx, held, user)
	if err != nil {
		c.log.Error().Str("id", held.ID).Str("type", "container").Str("step", "undo").Err(err).Msg("cannot undo a failed create")
	}
}
