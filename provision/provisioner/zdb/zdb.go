// Package zdb provisions 0-db namespaces. They live in zdb containers, one per
// pool and mode, which are made with the first namespace and removed with the
// last. It handles the image, the volume that holds the data and is as large as
// its namespaces need, a layer, the container, its port, and the namespace.
package zdb

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// Config holds the modules, records and limits that the provisioner uses.
type Config struct {
	Containers Containers
	Images     Images
	Storage    Storage
	Servers    Servers
	Namespaces Namespaces
	Identity   provisioner.Identity
	Homes      Homes
	// Past knows the workloads of an older croft; nil means none.
	Past provisioner.Past
	// CPU and Memory are each zdb container's, in cores and bytes. 0 is the default.
	CPU    uint64
	Memory uint64
	// Sync has each of them answer a write only once it is on the disk.
	Sync bool
	// Wait is how long a starting zdb may take to answer; 0 is DefaultWait. A zdb
	// reads its index first, which takes longer with more data.
	Wait time.Duration
	provisioner.Hearing
}

// The defaults of Config.
const (
	DefaultCPU    = 2
	DefaultMemory = 1 << 30
	DefaultWait   = 30 * time.Second
)

// Provisioner provisions reservations of type zdb.
type Provisioner struct {
	servers
}

// servers makes and takes down the containers that serve namespaces, and lists
// their namespaces.
type servers struct {
	Config
	addresses *addresses
}

// New makes the provisioner of namespaces.
func New(c Config) *Provisioner {
	if c.CPU == 0 {
		c.CPU = DefaultCPU
	}
	if c.Memory == 0 {
		c.Memory = DefaultMemory
	}
	if c.Wait == 0 {
		c.Wait = DefaultWait
	}
	return &Provisioner{servers{c, &addresses{}}}
}

// HoldsData reports that taking a namespace down loses its user's data.
func (p *Provisioner) HoldsData() bool { return true }

// Pool implements provisioner.Placed: a zdb container is named after its pool.
func (p *servers) Pool(result json.RawMessage) string {
	var data workload.ZDBResult
	if json.Unmarshal(result, &data) != nil {
		return ""
	}
	at, _ := serverOf(data.Container)
	return at.pool
}

// Prepare gets zdb's image for the pool that the namespace would use; it reserves no space.
func (p *Provisioner) Prepare(ctx context.Context, r *workload.Reservation) (provisioner.Progress, error) {
	got, err := p.prepare(ctx, r)
	if err != nil {
		return provisioner.Progress{}, errors.Wrapf(err, "cannot get the image for zdb namespace %s", r.ID)
	}
	return provisioner.Progress{Ready: got.Ready, What: told(got)}, nil
}

func (p *Provisioner) prepare(ctx context.Context, r *workload.Reservation) (node.Image, error) {
	want, err := p.plan(ctx, r)
	if err != nil {
		return node.Image{}, err
	}
	at, known, err := p.home(ctx, want)
	if err == nil && !known {
		var status node.StorageStatus
		if status, err = p.Storage.Status(ctx); err == nil {
			at, err = p.choose(ctx, want, status)
		}
	}
	if err != nil {
		return node.Image{}, err
	}
	got, err := p.pull(ctx, at)
	if node.KindOf(err).Final() {
		err = p.tidied(ctx, at, err)
	}
	return got, err
}

func (p *Provisioner) plan(ctx context.Context, r *workload.Reservation) (plan, error) {
	want, err := p.claimed(r)
	if err != nil {
		return want, err
	}
	return want.opened(ctx, r, p.Identity)
}

// claimed returns r's plan, with r's claim and the password still sealed.
func (p *Provisioner) claimed(r *workload.Reservation) (plan, error) {
	want, err := planOf(r)
	if err != nil {
		return want, err
	}
	want.claim, err = provisioner.ClaimOf(r, p.Past)
	want.namespace.Hash, want.namespace.AdoptUnlabelled = want.claim.Hash, want.claim.AdoptUnlabelled
	return want, err
}

// Provision makes the namespace, or adopts the existing one.
func (p *Provisioner) Provision(ctx context.Context, r *workload.Reservation) (json.RawMessage, error) {
	result, err := p.provision(ctx, r)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot provision zdb namespace %s", r.ID)
	}
	return json.Marshal(result)
}

func (p *Provisioner) provision(ctx context.Context, r *workload.Reservation) (*workload.ZDBResult, error) {
	want, err := p.plan(ctx, r)
	if err != nil {
		return nil, err
	}
	at, err := p.place(ctx, want)
	if err != nil {
		return nil, err
	}
	var undo provisioner.Undo
	result, err := p.make(ctx, at, want, &undo)
	if errors.Is(err, errNoAddress) {
		// One that its user has goes on running: the network comes back. So does one of which that isn't known.
		if told, unread := p.Homes.Was(r.ID); told || unread != nil {
			return nil, err
		}
	}
	if err != nil {
		err = undo.Rollback(ctx, err)
		if node.KindOf(err).Final() {
			err = p.tidied(ctx, at, err)
		}
		return nil, err
	}
	p.Homes.Set(r.ID, at.id())
	return result, nil
}

// make makes the plan's namespace, and pushes the removal of each new part on undo.
func (p *Provisioner) make(ctx context.Context, at server, want plan, undo *provisioner.Undo) (*workload.ZDBResult, error) {
	in, err := p.reach(ctx, at, want, undo)
	if err != nil {
		return nil, err
	}
	address, err := p.address(in.ZDBServer, want.namespace.Name)
	if err != nil {
		return nil, err
	}
	all, err := p.Namespaces.List(ctx, at.id())
	if err != nil {
		return nil, err
	}
	if i := indexOf(all, want.namespace.Name); i >= 0 {
		if err := want.claim.Check("make namespace "+want.namespace.Name+" in "+at.id(), all[i].Hash); err != nil {
			return nil, err
		}
	}
	all, there := with(all, want.namespace)
	if size := volumeSize(all); in.volume.Size < size {
		before := in.volume.Size
		undo.Push("the size of its volume", func(ctx context.Context) error {
			_, err := p.Storage.ResizeFilesystem(ctx, at.id(), before)
			return err
		})
		if in.volume, err = p.Storage.ResizeFilesystem(ctx, at.id(), size); err != nil {
			return nil, err
		}
	}
	spec := want.namespace
	spec.Container = at.id()
	_, err = p.Namespaces.Create(ctx, spec)
	if !there && node.KindOf(err) != node.Exist {
		undo.Push("the namespace", func(ctx context.Context) error { return p.Namespaces.Delete(ctx, at.id(), spec.Name) })
	}
	if err != nil {
		return nil, err
	}
	if err := p.shrink(ctx, in.volume, volumeSize(all)); err != nil {
		return nil, err
	}
	return &workload.ZDBResult{Namespace: spec.Name, IP: address, Port: uint(in.Port), Container: at.id()}, nil
}

// Stop shuts a namespace that has expired but whose data must stay for now: it
// sets a random password, until Provision sets the user's again. Clients that
// are already in stay in.
func (p *Provisioner) Stop(ctx context.Context, r *workload.Reservation) error {
	if err := p.shut(ctx, r); err != nil {
		return errors.Wrapf(err, "cannot shut zdb namespace %s", r.ID)
	}
	return nil
}

func (p *Provisioner) shut(ctx context.Context, r *workload.Reservation) error {
	want, err := p.claimed(r)
	if err != nil {
		return err
	}
	places, err := p.places(ctx, r)
	if err != nil {
		return err
	}
	spec := want.namespace
	spec.Password, spec.Public = rand.Text(), false
	for _, at := range places {
		all, err := p.Namespaces.List(ctx, at.id())
		if err != nil {
			return err
		}
		if i := indexOf(all, r.ID); i < 0 || !want.claim.Takes(all[i].Hash) {
			continue
		}
		spec.Container = at.id()
		if _, err := p.Namespaces.Create(ctx, spec); err != nil {
			return err
		}
	}
	return nil
}
