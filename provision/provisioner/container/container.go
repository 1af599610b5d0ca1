// Package container provisions containers. It handles, in this order: the volumes'
// owner and paths, the network's gateway, the image, the layer (a file system for
// the container's own writes), the container, its place in the network, and the start.
package container

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/reference"
)

// Config holds the modules, records and limits that the provisioner uses.
type Config struct {
	Containers Containers
	Images     Images
	Networks   Networks
	Storage    Storage
	Identity   provisioner.Identity
	Owners     reference.Owners
	// Past knows the workloads of an older croft; nil means none.
	Past provisioner.Past
	// Layer is the size of a container's layer, the file system for its writes
	// outside its volumes, in bytes.
	Layer uint64
	// Steady is how long a container must have run before the one that it replaces
	// is given up; zero means the constant Steady.
	Steady time.Duration
	provisioner.Hearing
}

// DefaultLayer is the default of Config.Layer, in bytes.
const DefaultLayer = 2 << 30

// Provisioner provisions reservations of type container.
type Provisioner struct {
	Config
}

// New makes the provisioner of containers.
func New(c Config) *Provisioner {
	if c.Layer == 0 {
		c.Layer = DefaultLayer
	}
	if c.Steady == 0 {
		c.Steady = Steady
	}
	return &Provisioner{c}
}

// slots is how many containers are made or taken down at a time: most of the
// time goes into waiting for the kernel and for containerd.
const slots = 4

// Slots implements provisioner.Parallel.
func (p *Provisioner) Slots() int { return slots }

// Prepare pulls the image, unless the container would be refused for its references: an image
// is costly, and a user's key free. While a reserved volume or network is missing, Provision is Transient.
func (p *Provisioner) Prepare(ctx context.Context, r *workload.Reservation) (provisioner.Progress, error) {
	want, err := p.plan(r)
	if err == nil {
		_, err = want.mounts(p.Owners)
	}
	if err == nil {
		var unknown bool
		if unknown, err = want.network.Unknown(p.Owners); unknown {
			err = p.gateway(ctx, &want) // the network may exist though the records are lost
		}
	}
	if kind := node.KindOf(err); kind == node.Refused || kind == node.Invalid {
		return provisioner.Progress{}, errors.Wrapf(err, "cannot provision container %s", r.ID)
	}
	image, err := p.pull(ctx, r)
	if err != nil {
		return provisioner.Progress{}, errors.Wrapf(err, "cannot get the image of container %s", r.ID)
	}
	return provisioner.Progress{Ready: image.Ready, What: told(image)}, nil
}

func (p *Provisioner) pull(ctx context.Context, r *workload.Reservation) (node.Image, error) {
	want, err := p.plan(r)
	if err == nil {
		err = p.login(ctx, r, &want)
	}
	if err != nil {
		return node.Image{}, err
	}
	return p.Images.Pull(ctx, want.image)
}

// plan returns r's plan, with r's claim.
func (p *Provisioner) plan(r *workload.Reservation) (plan, error) {
	want, err := planOf(r)
	if err != nil {
		return want, err
	}
	claim, err := provisioner.ClaimOf(r, p.Past)
	return want.claimed(claim), err
}

// secrets opens the plan's sealed variables.
func (p *Provisioner) secrets(ctx context.Context, r *workload.Reservation, want *plan) error {
	for _, name := range slices.Sorted(maps.Keys(want.secrets)) {
		if _, both := want.spec.Env[name]; both {
			return node.Errorf(node.Invalid, "data.secret_env.%s is in env too, must be in one of them", name)
		}
		plain, err := provisioner.OpenSecret(ctx, p.Identity, r, "secret_env."+name, want.secrets[name])
		if err != nil {
			return err
		}
		if slices.Contains(plain, 0) {
			return node.Errorf(node.Invalid, "data.secret_env.%s holds a zero byte, which no variable can", name)
		}
		want.spec.Secrets[name] = string(plain)
	}
	return nil
}

// login opens the plan's user and password at the registry.
func (p *Provisioner) login(ctx context.Context, r *workload.Reservation, want *plan) error {
	if want.auth == "" {
		return nil
	}
	plain, err := provisioner.OpenSecret(ctx, p.Identity, r, "image_auth", want.auth)
	want.image.Auth = string(plain)
	return err
}

// Provision makes the container and starts it, or adopts the existing one.
func (p *Provisioner) Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
	result, err := p.provision(ctx, r)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot provision container %s", r.ID)
	}
	return json.Marshal(result)
}

func (p *Provisioner) provision(ctx context.Context, r *workload.Reservation) (*workload.ContainerResult, error) {
	want, image, err := p.ready(ctx, r)
	if err != nil {
		return nil, err
	}
	var undo provisioner.Undo
	made, err := p.box(ctx, want, &undo)
	if err != nil {
		return nil, undo.Rollback(ctx, err)
	}
	member, err := made.run(ctx, p.Networks, p.Containers, &undo)
	if err != nil {
		return nil, undo.Rollback(ctx, err)
	}
	return want.result(member, image), nil
}

// ready returns r's plan once its volumes, its network and its image are there.
func (p *Provisioner) ready(ctx context.Context, r *workload.Reservation) (want plan, image node.Image, err error) {
	if want, err = p.plan(r); err != nil {
		return want, image, err
	}
	if err := p.secrets(ctx, r, &want); err != nil {
		return want, image, err
	}
	if err := p.volumes(ctx, &want); err != nil {
		return want, image, err
	}
	if err := p.gateway(ctx, &want); err != nil {
		return want, image, err
	}
	if image, err = p.pull(ctx, r); err == nil && !image.Ready {
		err = node.Errorf(node.Transient, "%s", told(image))
	}
	return want, image, err
}

// result is the data of the reservation's result.
func (p plan) result(member node.Member, image node.Image) *workload.ContainerResult {
	out := &workload.ContainerResult{ID: p.spec.ID, IPv4: member.IPv4, IPv6: member.IPv6, Image: image.Digest}
	if p.member.PublicIP6 {
		out.IPv6 = member.PublicIPv6
	}
	return out
}

// made is a container that was created but not started. found is whether it existed
// before this attempt; a module's Exist error means the same.
type made struct {
	want  plan
	found bool
}

// box makes the plan's layer and container, and pushes the removal of each new one on undo.
func (p *Provisioner) box(ctx context.Context, want plan, undo *provisioner.Undo) (made, error) {
	id, out := want.spec.ID, made{want: want}
	fs, fresh, err := p.layer(ctx, id, want.claim)
	if err != nil {
		return out, err
	}
	if fresh {
		undo.Push("its layer", func(ctx context.Context) error { return p.Storage.ReleaseFilesystem(ctx, fs.Name) })
	}
	out.want.spec.Layer = fs.Path
	_, err = p.Containers.Inspect(ctx, id)
	out.found = err == nil
	if !out.found && node.KindOf(err) != node.NotExist {
		return out, err
	}
	box, err := p.Containers.Create(ctx, out.want.spec)
	if !out.found && node.KindOf(err) != node.Exist {
		undo.Push("the container", func(ctx context.Context) error { return p.Containers.Delete(ctx, id) })
	}
	out.want.member.Namespace = box.Namespace
	return out, err
}

// run joins the container to its network and starts it, and pushes its leaving on undo unless found.
func (b made) run(ctx context.Context, networks Networks, containers Containers, undo *provisioner.Undo) (node.Member, error) {
	id, network := b.want.spec.ID, b.want.network.Key()
	member, err := networks.Join(ctx, b.want.member)
	if !b.found && node.KindOf(err) != node.Exist {
		undo.Push("its place in the network", func(ctx context.Context) error { return networks.Leave(ctx, network, id) })
	}
	if err != nil {
		return node.Member{}, err
	}
	_, err = containers.Start(ctx, id)
	return member, err
}

// layer makes the container's layer, on an SSD if the node has one, or finds it,
// and reports whether it made it.
func (p *Provisioner) layer(ctx context.Context, id string, claim provisioner.Claim) (fs node.Filesystem, made bool, err error) {
	spec := node.FilesystemSpec{Name: id + layerSuffix, Size: p.Layer, Hash: claim.Hash, AdoptUnlabelled: claim.AdoptUnlabelled}
	fs, err = p.Storage.InspectFilesystem(ctx, spec.Name)
	switch {
	case err == nil && fs.Hash != claim.Hash:
		// The module decides whether it may be adopted.
		spec.Size, spec.DiskType = fs.Size, fs.DiskType
		fs, err = p.Storage.CreateFilesystem(ctx, spec)
		return fs, false, err
	case node.KindOf(err) != node.NotExist:
		return fs, false, err
	}
	status, err := p.Storage.Status(ctx)
	if err != nil {
		return fs, false, err
	}
	spec.DiskType = workload.HDD
	for _, pool := range status.Pools {
		if pool.DiskType == workload.SSD {
			spec.DiskType = workload.SSD
		}
	}
	fs, err = p.Storage.CreateFilesystem(ctx, spec)
	return fs, err == nil, errors.Wrap(err, "cannot make the file system for its writable layer")
}
