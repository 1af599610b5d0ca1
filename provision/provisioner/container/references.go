package container

import (
	"context"
	"net/netip"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// references are the hashes in a container's data: zero where it has none, and
// the ID or the name alone counts.
type references struct {
	// volumes are the hashes of the mounted volumes, in the mounts' order.
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

// mounts returns the mounted volumes' owners by the node's own records. It refuses a volume that
// isn't the user's, or not the one that the user named by hash: an explorer gives IDs, and may have
// given a volume's ID to another reservation.
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

// unheardOf reports whether the node's own records have no such network, or no reservation of it
// with the hash that the container names.
func (p plan) unheardOf(owners Owners) (bool, error) {
	presence, err := owners.HasNetwork(p.spec.User, p.name, workload.Hash{})
	if err == nil && presence != Absent && p.refers.network != (workload.Hash{}) {
		presence, err = owners.HasNetwork(p.spec.User, p.name, p.refers.network)
	}
	return err == nil && presence == Absent, err
}

// volumes finds the mounted volumes' paths.
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
			// The file system with the volume's ID is another reservation's, left from before.
			return node.Errorf(node.Transient, "volume %s isn't there yet", m.Volume)
		}
		m.Source = fs.Path
	}
	return nil
}

// gateway finds the network's gateway, which is the container's name server.
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

// withoutNetwork returns the error for a missing network: Transient if one is reserved, else Refused.
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

// networkByHash refuses a container that names, by hash, a reservation that was never
// accepted as its network. A container already on the node was checked when it was
// made: the node may have forgotten that reservation since.
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
		return node.Errorf(node.Transient, "network %q doesn't match reservation %s yet", want.name, named.Hex())
	}
	begun, err := p.begun(ctx, want.spec.ID)
	if err != nil || begun {
		return err
	}
	return node.Errorf(node.Refused, "data.network.network_hash is %s, must be the hash of a reservation of your network %q that this node has accepted, or be left out",
		named.Hex(), want.name)
}

// begun reports whether the container or its layer is on the node.
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
