package container

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// What of a container may be there without the rest.
const (
	onlyLayer = "the container is gone, what it wrote is there"
	onlyImage = "the container is gone, its image is there"
)

// List returns the IDs of the reservations of which the modules have anything.
func (p *Provisioner) List(ctx context.Context) ([]string, error) {
	seen, err := p.Look(ctx)
	return slices.Sorted(maps.Keys(seen)), err
}

// Look returns the same, and what of each isn't as it was made. What the node
// runs for itself is no reservation's.
func (p *Provisioner) Look(ctx context.Context) (map[string]provisioner.Seen, error) {
	images, err := p.Images.List(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list images")
	}
	layers, err := p.Storage.ListFilesystems(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list what containers wrote")
	}
	containers, err := p.Containers.List(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list containers")
	}
	seen := map[string]provisioner.Seen{}
	for _, i := range images {
		if i.User != node.OwnUser {
			seen[i.Label] = provisioner.Seen{Hash: provisioner.HashOf(i.Hash), Drift: onlyImage}
		}
	}
	written := map[string]bool{}
	for _, fs := range layers {
		id, ok := strings.CutSuffix(fs.Name, layerSuffix)
		if parsed, err := workload.ParseID(id); ok && err == nil && parsed.String() == id {
			seen[id], written[id] = provisioner.Seen{Hash: provisioner.HashOf(fs.Hash), Drift: onlyLayer}, true
		}
	}
	for _, c := range containers {
		if c.User == node.OwnUser {
			continue
		}
		one := provisioner.Seen{Hash: provisioner.HashOf(c.Hash), Drift: c.Drift}
		if c.Drift == "" && !written[c.ID] {
			one.Drift = "what holds the container's own files is gone"
		}
		seen[c.ID] = one
	}
	return seen, nil
}
