package zdb

import (
	"context"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// place finds a namespace's zdb container, or chooses one. An existing namespace
// stays where it is, even if another pool has more room.
func (p *Provisioner) place(ctx context.Context, want plan) (server, error) {
	at, known, err := p.home(ctx, want)
	if err != nil || known {
		return at, err
	}
	status, err := p.Storage.Status(ctx)
	if err != nil {
		return server{}, err
	}
	at, known, err = p.search(ctx, want, status)
	if err != nil || known {
		return at, err
	}
	return p.choose(ctx, want, status)
}

// home is the zdb container in the records, unless its volume is gone for good.
func (p *Provisioner) home(ctx context.Context, want plan) (server, bool, error) {
	id, _ := p.Homes.Get(want.namespace.Name)
	at, ok := serverOf(id)
	if !ok {
		return server{}, false, nil
	}
	if at.mode != want.mode {
		return server{}, false, node.Errorf(node.Exist, "there is a namespace of that ID in %s, whose mode is %s, asked for is %s", id, at.mode, want.mode)
	}
	_, err := p.Storage.InspectFilesystem(ctx, id)
	if node.KindOf(err) == node.NotExist {
		return server{}, false, nil
	}
	return at, err == nil, err
}

// search looks for a namespace whose home isn't in the records: the node may have
// died, or lost them, after it was made. If its user was told that it exists,
// each zdb container has to answer, lest a second, empty namespace replace it.
// Otherwise those that don't answer are skipped.
func (p *Provisioner) search(ctx context.Context, want plan, status node.StorageStatus) (server, bool, error) {
	must, err := p.Homes.Was(want.namespace.Name)
	if err != nil {
		return server{}, false, err
	}
	for _, pool := range poolNames(status, want.disk) {
		at := server{pool: pool, mode: want.mode}
		all, err := p.asked(ctx, at, must)
		switch {
		case node.KindOf(err) == node.NotExist:
			continue // there is no such zdb container
		case err != nil && must:
			return server{}, false, node.Errorf(node.Transient, "it isn't known where its namespace is: %w", err)
		case has(all, want.namespace.Name):
			return at, true, nil
		}
	}
	return server{}, false, nil
}

// searchWait is how long to wait for a zdb container that may be skipped.
const searchWait = 5 * time.Second

func (p *servers) asked(ctx context.Context, at server, must bool) ([]node.ZDBNamespace, error) {
	if must {
		return p.look(ctx, at)
	}
	ctx, cancel := context.WithTimeout(ctx, searchWait)
	defer cancel()
	return p.look(ctx, at)
}

// poolNames are the names of a disk type's pools, and of broken pools that may be of it.
func poolNames(status node.StorageStatus, disk workload.DeviceType) []string {
	var out []string
	for _, pool := range status.Pools {
		if pool.DiskType == disk {
			out = append(out, pool.Name)
		}
	}
	for _, pool := range status.BrokenPools {
		if pool.DiskType == disk || pool.DiskType == "" {
			out = append(out, pool.Name)
		}
	}
	return out
}

// look lists the namespaces of a zdb container, repairing it first if it doesn't
// answer. NotExist when it has no volume.
func (p *servers) look(ctx context.Context, at server) ([]node.ZDBNamespace, error) {
	if _, err := p.Storage.InspectFilesystem(ctx, at.id()); err != nil {
		return nil, err
	}
	var undo provisioner.Undo
	if _, err := p.reach(ctx, at, plan{}, &undo); err != nil {
		return nil, again(undo.Rollback(ctx, err))
	}
	all, err := p.Namespaces.List(ctx, at.id())
	return all, again(err)
}

// again makes a final error of a lookup Transient: it doesn't prove that the
// object is absent.
func again(err error) error {
	if err == nil || !node.KindOf(err).Final() {
		return err
	}
	return node.Errorf(node.Transient, "%w", err)
}
