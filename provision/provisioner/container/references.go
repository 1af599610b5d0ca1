package container

import (
	"context"
	"net/netip"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// references are the hashes that a container's data names: zero where it names
// none, and the ID or the name alone counts.
type references struct {
	// volumes are those of the mounts, in their order.
	volumes []workload.Hash
	network workload.Hash
}

func referencesOf(data workload.Container) (references, error) {
	out := references{volumes: make([]workload.Hash, len(data.Mounts))}
	var err error
	for i, m := range data.Mounts {
		if out.volumes[i], err = hashOf(m.VolumeHash); err != nil {
			return out, err
		}
	}
	out.network, err = hashOf(data.Network.NetworkHash)
	return out, err
}

func hashOf(text string) (workload.Hash, error) {
	if text == "" {
		return workload.Hash{}, nil
	}
	h, err := workload.ParseHash(text)
	return h, node.WithKind(node.Invalid, err)
}

// mounts says by the node's own records whose the volumes are that are mounted: its user's own
// ones, and those that the user meant. An explorer gives IDs: it may have given a volume's ID to
// something else.
func (p plan) mounts(owners Owners) ([]Owner, error) {
	out := make([]Owner, len(p.spec.Mounts))
	for i, m := range p.spec.Mounts {
		owner, err := owners.Owner(m.Volume)
		if err != nil && node.KindOf(err) != node.NotExist {
			return nil, err
		}
		if err != nil || owner.User != p.spec.User || owner.Type != workload.TypeVolume {
			return nil, node.Errorf(node.Refused, "data.mounts[%d].volume_id is %q, must be a volume of yours on this node", i, m.Volume)
		}
		if named := p.refers.volumes[i]; named != (workload.Hash{}) && named != owner.Hash {
			return nil, node.Errorf(node.Refused, "data.mounts[%d].volume_hash is %s, must be the hash of the reservation of volume %s, %s",
				i, named.Hex(), m.Volume, owner.Hash.Hex())
		}
		out[i] = owner
	}
	return out, nil
}

// unheardOf reports whether the node's own records know nothing of the network, or of what the
// container names by hash as its network.
func (p plan) unheardOf(owners Owners) (bool, error) {
	presence, err := owners.HasNetwork(p.spec.User, p.name, workload.Hash{})
	if err == nil && presence != Absent && p.refers.network != (workload.Hash{}) {
		presence, err = owners.HasNetwork(p.spec.User, p.name, p.refers.network)
	}
	return err == nil && presence == Absent, err
}

// volumes finds the volumes that are mounted.
func (p *Provisioner) volumes(ctx context.Context, want *plan) error {
	owners, err := want.mounts(p.Owners)
	if err != nil {
		return err
	}
	for i := range want.spec.Mounts {
		m, owner := &want.spec.Mounts[i], owners[i]
		fs, err := p.Storage.InspectFilesystem(ctx, m.Volume)
		if node.KindOf(err) == node.NotExist {
			return node.Errorf(node.Transient, "volume %s isn't there yet", m.Volume)
		}
		if err != nil {
			return err
		}
		claim := node.Claim{Hash: owner.Hash.Hex(), AdoptUnlabelled: p.Past != nil && p.Past.Unlabelled(m.Volume)}
		if owner.Hash != (workload.Hash{}) && !claim.Adopts(fs.Hash) {
			// What lies under the volume's ID is somebody else's, left from before.
			return node.Errorf(node.Transient, "volume %s isn't there yet", m.Volume)
		}
		m.Source = fs.Path
	}
	return nil
}

// gateway finds the network: its gateway answers for names.
func (p *Provisioner) gateway(ctx context.Context, want *plan) error {
	gateway, err := p.Networks.Gateway(ctx, want.network)
	if node.KindOf(err) == node.NotExist {
		return p.withoutNetwork(want)
	}
	if err == nil {
		err = p.networkByHash(ctx, want)
	}
	if err != nil {
		return err
	}
	if prefix, err := netip.ParsePrefix(gateway); err == nil {
		gateway = prefix.Addr().String()
	}
	want.spec.DNS = []string{gateway}
	return nil
}

// withoutNetwork says why there is no network to join.
func (p *Provisioner) withoutNetwork(want *plan) error {
	presence, err := p.Owners.HasNetwork(want.spec.User, want.name, workload.Hash{})
	if err != nil {
		return err
	}
	if presence != Absent {
		return node.Errorf(node.Transient, "network %q isn't there yet", want.name)
	}
	return node.Errorf(node.Refused, "data.network.network_id is %q, must be the name of a network of yours on this node", want.name)
}

// networkByHash refuses a container that names by hash what was never accepted
// as its network. One that is on the node already was checked when it was made:
// the node may have forgotten since what its network was then.
func (p *Provisioner) networkByHash(ctx context.Context, want *plan) error {
	named := want.refers.network
	if named == (workload.Hash{}) {
		return nil
	}
	presence, err := p.Owners.HasNetwork(want.spec.User, want.name, named)
	if err != nil || presence == Accepted {
		return err
	}
	if presence == Coming {
		return node.Errorf(node.Transient, "network %q isn't as reservation %s asks yet", want.name, named.Hex())
	}
	begun, err := p.begun(ctx, want.spec.ID)
	if err != nil || begun {
		return err
	}
	return node.Errorf(node.Refused, "data.network.network_hash is %s, must be the hash of a reservation of your network %q that this node has accepted, or be left out",
		named.Hex(), want.name)
}

// begun reports whether the container is on the node, or what it wrote.
func (p *Provisioner) begun(ctx context.Context, id string) (bool, error) {
	_, err := p.Storage.InspectFilesystem(ctx, id+layerSuffix)
	if node.KindOf(err) == node.NotExist {
		_, err = p.Containers.Inspect(ctx, id)
	}
	if node.KindOf(err) == node.NotExist {
		return false, nil
	}
	return err == nil, err
}
