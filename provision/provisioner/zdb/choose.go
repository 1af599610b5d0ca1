package zdb

import (
	"context"
	"fmt"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/pkg/zdbspace"
)

// choice is a pool that a namespace may be made on. Sizes are in bytes.
type choice struct {
	server
	// there is whether it has a zdb container of that mode; free is the space that
	// it may still promise, with the surplus of that container's volume.
	there bool
	free  uint64
	// coming is the surplus of the other mode's volume: it is given back once zdb
	// has reclaimed the space of deleted namespaces.
	coming uint64
}

// choose picks where a new namespace is made: in an existing zdb container, if
// its pool has room, else on the pool with the most room.
func (p *Provisioner) choose(ctx context.Context, want plan, status node.StorageStatus) (server, error) {
	surplus, err := p.surplus(ctx)
	if err != nil {
		return server{}, err
	}
	other := workload.ZDBSeq
	if want.mode == other {
		other = workload.ZDBUser
	}
	var choices []choice
	for _, pool := range status.Pools {
		if pool.DiskType != want.disk {
			continue
		}
		at := server{pool: pool.Name, mode: want.mode}
		more, there := surplus[at]
		choices = append(choices, choice{
			server: at, there: there, free: pool.Offered - min(pool.Offered, pool.Reserved) + more,
			coming: surplus[server{pool: pool.Name, mode: other}],
		})
	}
	best, err := pick(choices, want)
	if !node.KindOf(err).Final() {
		return best, err
	}
	for _, pool := range status.BrokenPools {
		if pool.DiskType == want.disk || pool.DiskType == "" {
			return best, node.Errorf(node.Transient, "%w; pool %s is broken now: %s", err, pool.Name, pool.Cause)
		}
	}
	return best, err
}

// surplus is how much larger each zdb container's volume is than its namespaces
// need: deleted data isn't always reclaimed at once. It is taken as 0 for a
// container that doesn't answer.
func (p *Provisioner) surplus(ctx context.Context) (map[server]uint64, error) {
	all, err := p.Storage.ListFilesystems(ctx)
	if err != nil {
		return nil, err
	}
	answers, err := p.answering(ctx)
	if err != nil {
		return nil, err
	}
	out := map[server]uint64{}
	for _, fs := range all {
		at, ok := serverOf(fs.Name)
		if !ok {
			continue
		}
		out[at] = 0
		if !answers[fs.Name] {
			continue
		}
		if in, err := p.Namespaces.List(ctx, fs.Name); err == nil {
			out[at] = fs.Size - min(fs.Size, volumeSize(in))
		}
	}
	return out, nil
}

// answering are the zdb containers without drift: a request to any other runs
// into its deadline.
func (p *Provisioner) answering(ctx context.Context) (map[string]bool, error) {
	servers, err := p.Servers.Servers(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, s := range servers {
		out[s.Container] = s.Drift == ""
	}
	return out, nil
}

// pick chooses among the pools of the right type.
func pick(choices []choice, want plan) (server, error) {
	if len(choices) == 0 {
		return server{}, node.Errorf(node.Refused, "data.disk_type is %s, must be a disk type of this node", want.disk)
	}
	var best *choice
	var most, least, coming uint64
	for i, c := range choices {
		need := zdbspace.Bound(want.namespace.Size)
		if !c.there {
			need += base + layerSize
		}
		if most < c.free || least == 0 {
			most, least = c.free, need
		}
		if c.free < need {
			coming = max(coming, c.free+c.coming)
			continue
		}
		if best == nil || c.there && !best.there || c.there == best.there && c.free > best.free {
			best = &choices[i]
		}
	}
	if best != nil {
		return best.server, nil
	}
	kind := node.NoSpace
	if coming >= least {
		kind = node.Transient
	}
	return server{}, node.Errorf(kind, "not enough %s space on one pool: need %s with zdb's overhead, free %s", want.disk, text(least), text(most))
}

// text formats a number of bytes for people.
func text(n uint64) string {
	if n < gib {
		return fmt.Sprintf("%d MiB", n/mib)
	}
	return fmt.Sprintf("%.2f GiB", float64(n)/gib)
}
