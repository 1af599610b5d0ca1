package container

import (
	"context"
	"maps"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	runtimeName = "io.containerd.runc.v2"
	// undoTime is for taking back what was made, also when its call is over.
	undoTime = 30 * time.Second
)

// create makes a container, or makes the one of that ID right. What its start
// needs is begun beside, see getReady.
func (m *Module) create(ctx context.Context, asked node.ContainerSpec) (node.ContainerInfo, error) {
	if err := check(asked); err != nil {
		return node.ContainerInfo{}, err
	}
	it, err := m.hold(ctx, asked.ID)
	if err != nil {
		return node.ContainerInfo{}, err
	}
	info, stands, err := m.createHeld(ctx, it, asked)
	if err != nil {
		m.release(it)
		return node.ContainerInfo{}, err
	}
	m.getReady(it, stands)
	return info, nil
}

// createHeld is create with the item held. It returns what the container stands
// on when it was made just now, else nil.
func (m *Module) createHeld(ctx context.Context, it *item, asked node.ContainerSpec) (node.ContainerInfo, *footing, error) {
	none := node.ContainerInfo{}
	unpacked, err := m.pictures.Layers(ctx, asked.ID)
	if err != nil {
		return none, nil, err
	}
	p, err := m.planOf(asked, unpacked)
	if err != nil {
		return none, nil, err
	}
	if err := m.mayTake(ctx, asked); err != nil {
		return none, nil, err
	}
	if len(asked.Secrets) > 0 {
		if err := m.secrets.Put(asked.User, asked.ID, asked.Secrets); err != nil {
			return none, nil, err
		}
	}
	stands, err := m.settle(ctx, it, p)
	if err != nil {
		return none, nil, err
	}
	if stands != nil {
		return m.info(it.id, sight{user: asked.User, labels: p.labels}, ""), stands, nil
	}
	info, err := m.inspect(ctx, asked.ID)
	return info, nil, err
}

func claimOf(s node.ContainerSpec) node.Claim {
	return node.Claim{Hash: s.Hash, AdoptUnlabelled: s.AdoptUnlabelled}
}

// mayTake is Exist when what there is of a container isn't the caller's.
func (m *Module) mayTake(ctx context.Context, asked node.ContainerSpec) error {
	have, err := m.cfg.whose(ctx, m.daemon, asked.ID)
	if node.KindOf(err) == node.NotExist {
		r, known := m.recordOf(asked.ID)
		if !known {
			return nil
		}
		have, err = owner{user: r.User, hash: r.Hash}, nil
	}
	if err != nil {
		return err
	}
	if have.user != asked.User {
		return node.Errorf(node.Exist, "cannot make container %s for user %s: user %s has one of that ID", asked.ID, asked.User, have.user)
	}
	return claimOf(asked).Check("make container "+asked.ID, have.hash)
}

// claim writes a container's hash where it is missing: it was made by a croft
// that wrote none.
func (m *Module) claim(ctx context.Context, it *item, c client.Container, hash string) error {
	r, _ := m.recordOf(it.id)
	if hash == "" || r.Hash == hash {
		return nil
	}
	if _, err := c.SetLabels(ctx, map[string]string{labelHash: hash}); err != nil {
		return containerd.Error(err, "label container %s", it.id)
	}
	r.Hash = hash
	return m.keep(it, r)
}

// settle brings a container to its plan: what is as planned stays untouched. It
// returns what the container stands on when it made it.
func (m *Module) settle(ctx context.Context, it *item, p plan) (*footing, error) {
	in, found, err := load(ctx, m.daemon, p.spec.User, it.id)
	fresh := node.KindOf(err) == node.NotExist
	switch {
	case err != nil && !fresh:
		return nil, err
	case !fresh:
		same, err := m.asPlanned(in, it, found, p)
		if err == nil && same {
			err = m.claim(in, it, found, p.spec.Hash)
		}
		if err != nil || same {
			return nil, err
		}
		m.cfg.Log.Info().Str("id", it.id).Str("type", "container").Msg("the container isn't as it should be, it is made anew")
		it.ready = waiting{}
		if err := m.discard(in, found, p.spec.User); err != nil {
			return nil, err
		}
	}
	if fresh {
		if err := m.endLost(ctx, it, p.spec.User); err != nil {
			return nil, err
		}
	}
	stands, err := m.make(ctx, it, p)
	switch {
	case err != nil && fresh:
		m.undo(it, p.spec.User)
	case err != nil:
		m.letGo(it.id)
	}
	return stands, err
}

// endLost ends what runs of a container that containerd doesn't know any more: it can't be
// made while that runs, and nobody could stop it. What it stood on stays.
func (m *Module) endLost(ctx context.Context, it *item, user string) error {
	if _, known := m.recordOf(it.id); !known {
		if _, err := m.roots.Check(it.id); node.KindOf(err) == node.NotExist {
			return nil
		}
	}
	it.ready = waiting{}
	return m.clearLeft(m.daemon.Namespace(ctx, user), user, it.id)
}

// asPlanned reports whether what is there is all that is planned.
func (m *Module) asPlanned(ctx context.Context, it *item, c client.Container, p plan) (bool, error) {
	info, err := c.Info(ctx, client.WithoutRefreshedMetadata)
	if err != nil {
		return false, containerd.Error(err, "look at container %s", it.id)
	}
	if _, known := m.recordOf(it.id); !known || info.Labels[labelSpec] != p.print {
		return false, nil
	}
	drift, err := m.roots.Check(it.id)
	if node.KindOf(err) == node.NotExist {
		return false, nil
	}
	return err == nil && drift == "", err
}

// discard stops what runs and takes a container out of containerd. What it
// stood on stays.
func (m *Module) discard(ctx context.Context, c client.Container, user string) error {
	if err := halt(ctx, c); err != nil {
		return err
	}
	if err := c.Delete(ctx); err != nil && containerd.Kind(err) != node.NotExist {
		return containerd.Error(err, "remove container %s", c.ID())
	}
	return m.clearLeft(ctx, user, c.ID())
}

// make makes what it stands on, and then the container in containerd.
func (m *Module) make(ctx context.Context, it *item, p plan) (*footing, error) {
	made, err := m.roots.Make(ctx, p.root)
	if err != nil {
		return nil, err
	}
	var process spec.Process
	err = m.roots.Within(it.id, func(root string) (err error) {
		process, err = processOf(p, root)
		return err
	})
	if err == nil && len(p.spec.Secrets) > 0 {
		err = m.secrets.Own(p.spec.User, it.id, made.Range.Base+process.UID, made.Range.Base+process.GID)
	}
	if err != nil {
		return nil, err
	}
	built, err := spec.Build(spec.Config{
		ID: it.id, Root: made.Root, UserNS: made.UserNS, NetNS: made.NetNS, Base: made.Range.Base, Process: process,
		CgroupsPath: m.cfg.group(it.id), Hostname: p.spec.Hostname,
		CPU: p.spec.CPU, Memory: p.spec.Memory, PIDs: m.cfg.PIDs, IOWeight: m.cfg.ioWeight(p.spec.User),
		NoCapabilities: p.spec.NoCapabilities, ReadOnly: p.spec.ReadOnly,
	}, m.host)
	if err != nil {
		return nil, err
	}
	fifos, err := m.outputs.Open(ctx, it.id, p.spec.User)
	if err != nil {
		return nil, err
	}
	// The record comes first: what is in containerd always has one.
	old, _ := m.recordOf(it.id)
	if err := m.keep(it, anew(old, p)); err != nil {
		return nil, err
	}
	c, err := m.daemon.Client(ctx)
	if err != nil {
		return nil, err
	}
	p.labels[labelNamespace] = made.NetNS
	// Named, so that the client makes no lease: nothing of a container needs
	// one, and it would stay for a day where containerd is killed meanwhile.
	in := leases.WithLease(m.daemon.Namespace(ctx, p.spec.User), it.id)
	began := time.Now()
	inContainerd, err := c.NewContainer(in, it.id,
		client.WithSpec(built),
		client.WithRuntime(runtimeName, m.cfg.runtimeOptions(runtimeProgram)),
		client.WithContainerLabels(p.labels))
	m.took(it.id, "create", began)
	if err != nil {
		return nil, containerd.Error(err, "make container %s", it.id)
	}
	return &footing{container: inContainerd, made: made, process: built.Process, fifos: fifos}, nil
}

// processOf is a container's first one, whose root is at a path. Secret variables count as its
// others do, but aren't in it: its user reads them from their file.
func processOf(p plan, root string) (spec.Process, error) {
	args := command(p.spec, p.image.Config)
	if len(p.spec.Secrets) > 0 {
		all := map[string]string{}
		maps.Copy(all, p.spec.Env)
		maps.Copy(all, p.spec.Secrets)
		if _, err := spec.NewProcess(p.image.Config, args, all, root); err != nil {
			return spec.Process{}, err
		}
	}
	process, err := spec.NewProcess(p.image.Config, args, p.spec.Env, root)
	if err == nil && p.spec.NonRoot && process.UID == 0 {
		err = node.Errorf(node.Invalid, "cannot start the image: its user is root, and data.non_root is true: another user must be named in the image")
	}
	return process, err
}

// took notes how long containerd and runc had to do with a container since then.
func (m *Module) took(id, step string, began time.Time) {
	m.cfg.Log.Debug().Str("id", id).Str("type", "container").Str("step", step).Dur("containerd", time.Since(began)).Msg("containerd has answered")
}

// anew is the record of a container that was made again: what happened to it
// before is still known.
func anew(old record, p plan) record {
	old.ID, old.User, old.Hash, old.Root = p.root.ID, p.root.User, p.spec.Hash, p.root
	old.Wanted, old.Started, old.Next, old.Pause, old.Cause = false, 0, 0, 0, ""
	return old
}

// undo takes back what a failed create has made.
func (m *Module) undo(it *item, user string) {
	m.letGo(it.id) // also where containerd can't be asked for the rest
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), undoTime)
	defer cancel()
	err := m.clear(ctx, it, user)
	if err != nil {
		m.cfg.Log.Error().Err(err).Str("id", it.id).Str("type", "container").Msg("what was made of a container can't be taken back")
	}
}
