package zdb

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
)

// List returns the IDs of the reservations whose namespaces are on the node.
func (p *Provisioner) List(ctx context.Context) ([]string, error) {
	seen, err := p.Look(ctx)
	return provisioner.IDs(seen), err
}

// Look returns their labels, and each one's drift or that of its zdb container.
// Several zdb containers may have a namespace of one ID.
func (p *Provisioner) Look(ctx context.Context) (map[provisioner.Label]provisioner.Seen, error) {
	homes, err := p.Homes.All()
	if err != nil {
		return nil, err
	}
	v, err := p.seeServers(ctx)
	if err != nil {
		return nil, err
	}
	return p.state(ctx, v, homes, v.containers(homes))
}

// LookAt is Look of the zdb containers in which these namespaces live. A namespace whose
// zdb container isn't known may be in any: then it looks at all.
func (p *Provisioner) LookAt(ctx context.Context, ids []string) (map[provisioner.Label]provisioner.Seen, error) {
	homes, err := p.Homes.All()
	if err != nil {
		return nil, err
	}
	var containers []string
	for _, id := range ids {
		home, known := homes[id]
		if !known {
			return p.Look(ctx)
		}
		if !slices.Contains(containers, home.Container) {
			containers = append(containers, home.Container)
		}
	}
	v, err := p.seeServers(ctx)
	if err != nil {
		return nil, err
	}
	return p.state(ctx, v, homes, containers)
}

// state returns the labels and drifts of the namespaces in containers.
func (p *Provisioner) state(ctx context.Context, v view, homes map[string]Home, containers []string) (map[provisioner.Label]provisioner.Seen, error) {
	if err := p.seeContainers(ctx, v, containers); err != nil {
		return nil, err
	}
	seen := map[provisioner.Label]provisioner.Seen{}
	faults := map[string]string{}
	for _, id := range containers {
		all, fault := p.inside(ctx, v, id)
		faults[id] = fault
		for _, n := range all {
			if !workload.IsID(n.Name) {
				continue
			}
			home, known := homes[n.Name]
			known = known && home.has(n)
			var one provisioner.Seen
			switch {
			case known && home.Container != id:
				continue
			case known && fault != "":
				one.Drift = fault
			case known: // else it is an orphan, or still being made
				one.Drift = cmp.Or(differs(home.Reservation, n), p.moved(v.servers[id], home.Address))
			}
			seen[labelOf(n)] = one
		}
		v.surplus(id, all, homes, seen)
	}
	for name, home := range homes {
		if fault := faults[home.Container]; fault != "" && !home.listed(name, seen) {
			seen[provisioner.Label{ID: name}] = provisioner.Seen{Drift: fault}
		}
	}
	return seen, nil
}

func labelOf(n node.ZDBNamespace) provisioner.Label { return provisioner.LabelOf(n.Name, n.Hash) }

// hash is the recorded reservation's; zero when it can't be computed.
func (h Home) hash() workload.Hash {
	hash, err := h.Reservation.Hash()
	if err != nil {
		return workload.Hash{}
	}
	return hash
}

// has reports whether a namespace of its ID is the reservation's. An older croft's
// namespaces have no hash.
func (h Home) has(n node.ZDBNamespace) bool {
	l := labelOf(n)
	return l.Hash == workload.Hash{} || l.Hash == h.hash()
}

// listed reports whether seen has the reservation's namespace.
func (h Home) listed(name string, seen map[provisioner.Label]provisioner.Seen) bool {
	_, own := seen[provisioner.Label{ID: name, Hash: h.hash()}]
	_, unlabelled := seen[provisioner.Label{ID: name}]
	return own || unlabelled
}

// view holds the modules' containers, file systems and zdb servers, by ID.
type view struct {
	boxes   map[string]node.ContainerInfo
	volumes map[string]node.Filesystem
	servers map[string]node.ZDBServer
}

// seeServers asks for the zdb servers.
func (p *Provisioner) seeServers(ctx context.Context) (view, error) {
	v := view{boxes: map[string]node.ContainerInfo{}, volumes: map[string]node.Filesystem{}, servers: map[string]node.ZDBServer{}}
	servers, err := p.Servers.Servers(ctx)
	for _, s := range servers {
		v.servers[s.Container] = s
	}
	return v, errors.Wrap(err, "cannot list zdb containers")
}

// seeContainers asks for zdb containers and their file systems. A node has a few of them
// among hundreds of users'.
func (p *Provisioner) seeContainers(ctx context.Context, v view, containers []string) error {
	for _, id := range containers {
		box, err := p.Containers.Inspect(ctx, id)
		if err == nil {
			v.boxes[id] = box
		} else if node.KindOf(err) != node.NotExist {
			return errors.Wrapf(err, "cannot look at container %s", id)
		}
		for _, name := range []string{id, id + layerSuffix} {
			fs, err := p.Storage.InspectFilesystem(ctx, name)
			if err == nil {
				v.volumes[name] = fs
			} else if node.KindOf(err) != node.NotExist {
				return errors.Wrapf(err, "cannot look at the volumes of zdb container %s", id)
			}
		}
	}
	return nil
}

// containers are the IDs of the zdb containers that have namespaces, or should.
func (v view) containers(homes map[string]Home) []string {
	ids := map[string]bool{}
	for id := range v.servers {
		ids[id] = true
	}
	for _, h := range homes {
		ids[h.Container] = true
	}
	return slices.Sorted(maps.Keys(ids))
}

// inside lists the namespaces of a zdb container, and describes the container's fault.
func (p *Provisioner) inside(ctx context.Context, v view, id string) (all []node.ZDBNamespace, fault string) {
	s, inHand := v.servers[id]
	if inHand {
		var err error
		if all, err = p.Namespaces.List(ctx, id); err != nil {
			fault = "its zdb doesn't answer: " + err.Error()
		}
	}
	box, there := v.boxes[id]
	_, volume := v.volumes[id]
	_, layer := v.volumes[id+layerSuffix]
	switch {
	case !volume:
		return all, "the volume of its zdb container can't be found"
	case !there:
		return all, "its zdb container is gone"
	case faultOf(box) != "":
		return all, faultOf(box)
	case !layer:
		return all, "its zdb container's writable layer is gone"
	case !inHand:
		return all, "its zdb container has no port"
	case s.Drift != "":
		return all, "its zdb container: " + s.Drift
	}
	return all, fault
}

// faultOf describes the drift or failure of a zdb container; empty when it runs as made.
func faultOf(box node.ContainerInfo) string {
	switch {
	case box.Drift != "":
		return "its zdb container: " + box.Drift
	case box.State != node.ContainerRunning && box.Ended != 0:
		return strings.TrimSpace(fmt.Sprintf("its zdb container has ended with exit code %d %s", box.ExitCode, strings.TrimSpace(box.OOM+" "+box.Cause)))
	case box.State != node.ContainerRunning:
		return strings.TrimSpace("its zdb container doesn't run " + box.Cause)
	}
	return ""
}

// differs describes how a namespace differs from its reservation. The
// reservation was validated when it was accepted.
func differs(r *workload.Reservation, n node.ZDBNamespace) string {
	var asked workload.ZDB
	if err := json.Unmarshal(r.Data, &asked); err != nil {
		return ""
	}
	switch {
	case n.Size != asked.Bytes():
		return fmt.Sprintf("its size is %d bytes, must be %d", n.Size, asked.Bytes())
	case n.Public != asked.Public:
		return fmt.Sprintf("public is %t, must be %t", n.Public, asked.Public)
	case n.Protected != (asked.Password != ""):
		return fmt.Sprintf("password protection is %t, must be %t", n.Protected, asked.Password != "")
	}
	return ""
}

// surplus reports a volume of the wrong size as drift of the first namespace in it
// that has none of its own: its Provision resizes the volume.
func (v view) surplus(id string, all []node.ZDBNamespace, homes map[string]Home, seen map[provisioner.Label]provisioner.Seen) {
	volume, ok := v.volumes[id]
	if size := volumeSize(all); !ok || volume.Size == size {
		return
	}
	for _, n := range all {
		one := seen[labelOf(n)]
		if home, known := homes[n.Name]; known && home.Container == id && home.has(n) && one.Drift == "" {
			one.Drift = fmt.Sprintf("the volume of its zdb container has %s, must have %s", text(volume.Size), text(volumeSize(all)))
			seen[labelOf(n)] = one
			return
		}
	}
}
