// Package container provisions containers. It conducts: the volumes' owner and
// paths, a file system of its own for what the container writes, its image, the
// container, its place in the network, and the start, in that order.
package container

import (
	"context"
	"encoding/json"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Config is what the provisioner uses.
type Config struct {
	Containers Containers
	Images     Images
	Networks   Networks
	Storage    Storage
	Identity   Identity
	Owners     Owners
	// Past knows what an older croft has made; nil means nothing.
	Past provisioner.Past
	// Layer is the size of the file system for what a container writes beside
	// its volumes, in bytes.
	Layer uint64
}

// DefaultLayer is how much a container may write beside its volumes, in bytes.
const DefaultLayer = 2 << 30

// Provisioner is the container type's.
type Provisioner struct {
	Config
}

// New makes the provisioner of containers.
func New(c Config) *Provisioner {
	if c.Layer == 0 {
		c.Layer = DefaultLayer
	}
	return &Provisioner{c}
}

// slots is how many containers are made or taken down at a time: most of each
// is waiting for the kernel and for containerd.
const slots = 4

// Slots implements provisioner.Parallel.
func (p *Provisioner) Slots() int { return slots }

// Prepare pulls the image.
func (p *Provisioner) Prepare(ctx context.Context, r *workload.Reservation) (provisioner.Progress, error) {
	image, err := p.pull(ctx, r)
	if err != nil {
		return provisioner.Progress{}, errors.Wrapf(err, "cannot get the image of container %s", r.ID)
	}
	return provisioner.Progress{Ready: image.Ready, What: told(image)}, nil
}

func (p *Provisioner) pull(ctx context.Context, r *workload.Reservation) (node.Image, error) {
	want, err := p.plan(r)
	if err == nil {
		err = p.opener(ctx, r).login(&want)
	}
	if err != nil {
		return node.Image{}, err
	}
	return p.Images.Pull(ctx, want.image)
}

// plan is what to ask of the modules, as r's.
func (p *Provisioner) plan(r *workload.Reservation) (plan, error) {
	want, err := planOf(r)
	if err != nil {
		return want, err
	}
	claim, err := provisioner.ClaimOf(r, p.Past)
	return want.claimed(claim), err
}

func (p *Provisioner) opener(ctx context.Context, r *workload.Reservation) opener {
	return opener{r, func(box []byte) ([]byte, error) { return p.Identity.Decrypt(ctx, box) }}
}

// Provision makes the container and starts it, or adopts the one that is there.
func (p *Provisioner) Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
	result, err := p.provision(ctx, r)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot provision container %s", r.ID)
	}
	return json.Marshal(result)
}

func (p *Provisioner) provision(ctx context.Context, r *workload.Reservation) (*workload.ContainerResult, error) {
	want, err := p.plan(r)
	if err != nil {
		return nil, err
	}
	if err := p.opener(ctx, r).env(&want); err != nil {
		return nil, err
	}
	if err := p.volumes(ctx, &want); err != nil {
		return nil, err
	}
	if err := p.gateway(ctx, &want); err != nil {
		return nil, err
	}
	image, err := p.pull(ctx, r)
	if err != nil {
		return nil, err
	}
	if !image.Ready {
		return nil, node.Errorf(node.Transient, "%s", told(image))
	}
	var undo provisioner.Undo
	member, err := p.make(ctx, want, &undo)
	if err != nil {
		return nil, undo.Rollback(ctx, err)
	}
	result := &workload.ContainerResult{ID: r.ID, IPv4: member.IPv4, IPv6: member.IPv6, Image: image.Digest}
	if want.member.PublicIP6 {
		result.IPv6 = member.PublicIPv6
	}
	return result, nil
}

// make makes what the plan says, and pushes what it made itself on undo. What a
// module says is another reservation's was there before, seen or not.
func (p *Provisioner) make(ctx context.Context, want plan, undo *provisioner.Undo) (node.Member, error) {
	id := want.spec.ID
	var none node.Member
	fs, made, err := p.layer(ctx, id, want.claim)
	if err != nil {
		return none, err
	}
	if made {
		undo.Push("its layer", func(ctx context.Context) error { return p.Storage.ReleaseFilesystem(ctx, fs.Name) })
	}
	want.spec.Layer = fs.Path
	_, err = p.Containers.Inspect(ctx, id)
	found := err == nil
	if !found && node.KindOf(err) != node.NotExist {
		return none, err
	}
	box, err := p.Containers.Create(ctx, want.spec)
	if !found && node.KindOf(err) != node.Exist {
		undo.Push("the container", func(ctx context.Context) error { return p.Containers.Delete(ctx, id) })
	}
	if err != nil {
		return none, err
	}
	want.member.Namespace = box.Namespace
	member, err := p.Networks.Join(ctx, want.member)
	if !found && node.KindOf(err) != node.Exist {
		undo.Push("its place in the network", func(ctx context.Context) error { return p.Networks.Leave(ctx, want.network, id) })
	}
	if err != nil {
		return none, err
	}
	_, err = p.Containers.Start(ctx, id)
	return member, err
}

// layer makes the file system for what the container writes, on a fast disk if
// the node has one, and reports whether it wasn't there.
func (p *Provisioner) layer(ctx context.Context, id string, claim provisioner.Claim) (fs node.Filesystem, made bool, err error) {
	spec := node.FilesystemSpec{Name: id + layerSuffix, Size: p.Layer, Hash: claim.Hash, AdoptUnlabelled: claim.AdoptUnlabelled}
	fs, err = p.Storage.InspectFilesystem(ctx, spec.Name)
	switch {
	case err == nil && fs.Hash != claim.Hash:
		// Whether it may be taken over is the module's to say.
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
	return fs, err == nil, errors.Wrap(err, "cannot make the file system for what it writes")
}
