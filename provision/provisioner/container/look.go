package container

import (
	"context"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// The drift of a container of which only a part is left.
const (
	onlyLayer = "the container is gone, its writable layer is left"
	onlyImage = "the container is gone, its image is left"
)

// List returns the IDs of the reservations of which the modules have any part.
func (p *Provisioner) List(ctx context.Context) ([]string, error) {
	seen, err := p.Look(ctx)
	return provisioner.IDs(seen), err
}

// Look returns their labels, and each one's drift. It leaves out the node's own
// containers: these belong to no reservation.
func (p *Provisioner) Look(ctx context.Context) (map[provisioner.Label]provisioner.Seen, error) {
	images, err := p.Images.List(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list images")
	}
	layers, err := p.Storage.ListFilesystems(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list the writable layers of containers")
	}
	containers, err := p.Containers.List(ctx)
	if err != nil {
		return nil, errors.Wrap(err, "cannot list containers")
	}
	return combine(images, layers, containers), nil
}

// LookAt is Look of the containers with these IDs.
func (p *Provisioner) LookAt(ctx context.Context, ids []string) (map[provisioner.Label]provisioner.Seen, error) {
	var images []node.Image
	var layers []node.Filesystem
	var containers []node.ContainerInfo
	for _, id := range ids {
		image, imageErr := p.Images.Inspect(ctx, id)
		layer, layerErr := p.Storage.InspectFilesystem(ctx, id+layerSuffix)
		one, err := p.Containers.Inspect(ctx, id)
		for _, err := range []error{imageErr, layerErr, err} {
			if err != nil && node.KindOf(err) != node.NotExist {
				return nil, errors.Wrapf(err, "cannot look at container %s", id)
			}
		}
		if imageErr == nil {
			images = append(images, image)
		}
		if layerErr == nil {
			layers = append(layers, layer)
		}
		if err == nil {
			containers = append(containers, one)
		}
	}
	return combine(images, layers, containers), nil
}

// combine returns the labels and drifts of the containers that these are the parts of.
func combine(images []node.Image, layers []node.Filesystem, containers []node.ContainerInfo) map[provisioner.Label]provisioner.Seen {
	s := sight{seen: map[provisioner.Label]provisioner.Seen{}, hashes: map[string][]string{}}
	written := map[string]string{}
	for _, fs := range layers {
		if id, ok := strings.CutSuffix(fs.Name, layerSuffix); ok && workload.IsID(id) {
			written[id] = fs.Hash
		}
	}
	for _, c := range containers {
		if c.User == node.OwnUser {
			continue
		}
		drift := c.Drift
		if layer, ok := written[c.ID]; drift == "" && (!ok || !alike(layer, c.Hash)) {
			drift = "the container's writable layer is gone"
		}
		s.add(c.ID, c.Hash, drift)
	}
	for id, hash := range written {
		s.add(id, hash, onlyLayer)
	}
	for _, i := range images {
		if i.User != node.OwnUser {
			s.add(i.Label, i.Hash, onlyImage)
		}
	}
	return s.seen
}

// sight collects the parts of containers.
type sight struct {
	seen map[provisioner.Label]provisioner.Seen
	// hashes are the hashes of the parts added, by ID.
	hashes map[string][]string
}

// add adds one part of an ID. It counts by itself unless a part added before may be
// of the same container: the parts of an ID may be of several reservations.
func (s *sight) add(id, hash, drift string) {
	if slices.ContainsFunc(s.hashes[id], func(other string) bool { return alike(other, hash) }) {
		return
	}
	s.hashes[id] = append(s.hashes[id], hash)
	s.seen[provisioner.LabelOf(id, hash)] = provisioner.Seen{Drift: drift}
}

// alike reports whether two parts of one ID may be of one container. An older croft
// wrote no hashes, and an upgraded node labels the parts one by one.
func alike(a, b string) bool { return a == b || a == "" || b == "" }
